package executor

import (
	"errors"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// lasting are the errors of the stores that come again however often the same
// is asked for.
var lasting = []error{
	blob.ErrNotFound, blob.ErrDamaged, blob.ErrTooLarge, blob.ErrKey, blob.ErrArgument, blob.ErrNotConfigured,
	table.ErrNotFound, table.ErrLimit, table.ErrInvalid, table.ErrNotConfigured,
	vault.ErrRefused, vault.ErrArgument,
}

// permanent tells an error of what an attempt needs that no later try would
// mend, such as an object that is gone, from a store that cannot be reached.
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
