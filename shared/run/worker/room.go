package worker

import (
	"context"
	"errors"

	"millrace/shared/account/quota"
	"millrace/shared/platform/errs"
	"millrace/shared/run/runstate"
)

// room takes room for the instances of a map. If its workspace has used it up it
// tells why the map has to wait. Maps that are let in always come to their end, so
// those that wait do, too: a map that is finished gives its room back while its
// run goes on.
func (a *attempts) room(ctx context.Context, width int) (why string, err error) {
	err = a.Quota.Take(ctx, quota.QueuedItems, a.org, int64(width), func(ctx context.Context) (int64, error) {
		return runstate.CountItems(ctx, a.Table, a.org)
	})
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.TooMany {
		return e.Message + ".", nil
	}
	return "", err
}
