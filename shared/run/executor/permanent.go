package executor

import (
	"errors"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// lasting are the errors of the stores that recur however often a request is
// repeated.
var lasting = []error{
	blob.ErrNotFound, blob.ErrDamaged, blob.ErrTooLarge, blob.ErrKey, blob.ErrArgument, blob.ErrNotConfigured,
	table.ErrNotFound, table.ErrLimit, table.ErrInvalid, table.ErrNotConfigured,
	vault.ErrRejected, vault.ErrArgument,
}

// permanent reports whether an error of what an attempt needs cannot be mended
// by a retry, such as that of a missing object. The error of a store that
// cannot be reached is not permanent.
func permanent(err error) bool {
	for _, kind := range lasting {
		if errors.Is(err, kind) {
			return true
		}
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e.Code != errs.Internal && e.Code != errs.Unavailable && e.Code != errs.TooMany
	}
	return false
}
