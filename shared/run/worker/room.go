package worker

import (
	"context"
	"errors"

	"millrace/shared/account/quota"
	"millrace/shared/platform/errs"
	"millrace/shared/run/runstate"
)

// room reserves quota for the instances of a map. If the workspace has reached
// its limit it returns why the map must wait. Maps with quota always finish,
// and release it when they do, so waiting maps get theirs eventually.
func (a *attempts) room(ctx context.Context, width int) (why string, err error) {
	err = a.Quota.Take(ctx, quota.QueuedItems, a.org, int64(width), func(ctx context.Context) (int64, error) {
		return runstate.CountItems(ctx, a.Table, a.org)
	})
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.TooMany {
		return e.Message + ".", nil
	}
	return "", err
}
