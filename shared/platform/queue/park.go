package queue

import (
	"context"
	"errors"
)

// ErrParked means that too many message handlers of the process are waiting
// already.
var ErrParked = errors.New("queue: too many parked handlers")

// Parker lets a handler wait without occupying a worker. Runtimes implement it.
type Parker interface {
	// Park implements the function Park.
	Park(ctx context.Context, wait func(context.Context) error) error
	// Parked returns the number of waiting handlers of the process.
	Parked() int
	// Stopping reports whether the runtime delivers no more messages.
	Stopping() bool
}

type parkerKey struct{}

// WithParker returns a context in which Park uses p.
func WithParker(ctx context.Context, p Parker) context.Context {
	return context.WithValue(ctx, parkerKey{}, p)
}

// Park calls wait, which waits for a scarce resource, and returns its error. If
// the runtime supports it, a message handler that calls Park releases its
// worker meanwhile, so that other messages of its queue are handled; otherwise
// Park just calls wait. The context passed to wait ends when the runtime stops.
// Besides the error of wait, Park returns ErrParked at once if too many
// handlers wait, and the context's cause if the context ended before a worker
// was free again. In the latter case wait has returned nil, and the caller must
// release what wait acquired.
func Park(ctx context.Context, wait func(context.Context) error) error {
	if p, ok := ctx.Value(parkerKey{}).(Parker); ok {
		return p.Park(ctx, wait)
	}
	return wait(ctx)
}

// Parked returns the number of message handlers of the process that wait in
// Park. It is 0 without a runtime that supports parking.
func Parked(ctx context.Context) int {
	if p, ok := ctx.Value(parkerKey{}).(Parker); ok {
		return p.Parked()
	}
	return 0
}

// Stopping reports whether the runtime of a message handler is about to stop:
// the handler finishes what it has begun and leaves the rest to the queues.
func Stopping(ctx context.Context) bool {
	p, ok := ctx.Value(parkerKey{}).(Parker)
	return ok && p.Stopping()
}
