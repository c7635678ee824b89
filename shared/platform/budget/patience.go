package budget

import (
	"context"
	"time"

	"millrace/shared/platform/errs"
)

// longest is the total time that the work of a request may wait for turns.
const longest = 15 * time.Second

// patience is the rest of that time. It is not safe for concurrent use.
type patience struct {
	left   time.Duration
	cancel context.CancelCauseFunc
}

type patienceKey struct{}

// WithWaitLimit returns a context for costly work that a request asks for, and
// its cancel function. Once the work has waited 15 s for turns in total, the
// context is cancelled with an errs.Unavailable that carries a retry delay.
func WithWaitLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, patienceKey{}, &patience{longest, cancel}), func() { cancel(nil) }
}

// waits begins a wait for a turn, which ends when stop is called.
func waits(ctx context.Context) (stop func()) {
	p, ok := ctx.Value(patienceKey{}).(*patience)
	if !ok {
		return func() {}
	}
	began := time.Now()
	timer := time.AfterFunc(p.left, func() {
		busy := errs.New(errs.Unavailable, "The service is busy with costly requests, try again")
		busy.RetryAfter = 5 * time.Second
		p.cancel(busy)
	})
	return func() {
		timer.Stop()
		p.left -= time.Since(began)
	}
}
