package queue

import (
	"context"
	"errors"
)

// ErrParked: so many message handlers of the process wait already that one more
// may not.
var ErrParked = errors.New("queue: too many parked handlers")

// Parker is how a runtime lets a handler wait without a worker.
type Parker interface {
	// Park does what the function Park tells.
	Park(ctx context.Context, wait func(context.Context) error) error
	// Parked is how many handlers of the process wait.
	Parked() int
}

type parkerKey struct{}

// WithParker returns a context in which Park uses p.
func WithParker(ctx context.Context, p Parker) context.Context {
	return context.WithValue(ctx, parkerKey{}, p)
}

// Park calls wait, which waits for something scarce, and returns its error. A
// message handler that calls it gives its worker back meanwhile, if its runtime
// offers that, so that other messages of its queue are handled; else Park just
// calls wait. wait's context ends when the runtime stops. Errors besides wait's:
// ErrParked at once, if too many handlers wait, and the context's cause, if it
// ended before there was a worker again. The last comes after wait has returned
// nil: the caller gives back what wait took.
func Park(ctx context.Context, wait func(context.Context) error) error {
	if p, ok := ctx.Value(parkerKey{}).(Parker); ok {
		return p.Park(ctx, wait)
	}
	return wait(ctx)
}

// Parked is how many message handlers of the process wait in Park; 0 without a
// runtime that offers it.
func Parked(ctx context.Context) int {
	if p, ok := ctx.Value(parkerKey{}).(Parker); ok {
		return p.Parked()
	}
	return 0
}
