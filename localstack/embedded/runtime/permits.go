package runtime

import (
	"context"
	"sync"
	"time"

	"millrace/localstack/embedded/share"
	"millrace/shared/platform/queue"
)

// MaxParked is the number of handlers of the process that may wait without a
// worker. A workspace can have at most 2,000 of them.
const MaxParked = 2250

// sharing is a queue driver that can skip messages of workspaces that may not
// have more workers.
type sharing interface {
	// ReceiveShared takes a slot for each message that it returns.
	ReceiveShared(ctx context.Context, name string, max int, wait time.Duration, workers *share.Slots) ([]queue.Delivery, error)
	// Hand calls to with messages that have nothing in their way, as they are sent,
	// until ctx ends or stop is called, and takes a slot for each. The others are
	// received.
	Hand(ctx context.Context, name string, workers *share.Slots, to func(queue.Delivery)) (stop func())
}

// asTheyCome adapts a driver that chooses the next message itself, as SQS does.
type asTheyCome struct{ queue.Queues }

// ReceiveShared first waits for free workers. It does not hold any while it
// waits for messages, so slightly more handlers than workers may run when a
// parked handler resumes meanwhile.
func (q asTheyCome) ReceiveShared(ctx context.Context, name string, most int, wait time.Duration, workers *share.Slots) ([]queue.Delivery, error) {
	free := workers.Free()
	for ; free == 0; free = workers.Free() {
		select {
		case <-workers.Changed():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	got, err := q.Receive(ctx, name, min(free, most), wait)
	for _, m := range got {
		workers.Take(m.Group)
	}
	return got, err
}

// handler is the worker of one message's handler.
type handler struct {
	runtime   *Runtime
	workers   *share.Slots
	workspace string
	stop      context.Context // ends when the runtime stops receiving

	mu   sync.Mutex
	away bool // whether the worker is released
}

// Hand hands on nothing: all messages are received.
func (q asTheyCome) Hand(context.Context, string, *share.Slots, func(queue.Delivery)) (stop func()) {
	return func() {}
}

// Parked implements queue.Parker.
func (h *handler) Parked() int { return h.runtime.parked.Taken() }

// Stopping implements queue.Parker.
func (h *handler) Stopping() bool { return h.stop.Err() != nil }

// Park implements queue.Parker. Of several goroutines of the handler that park at
// once the first gives the worker back.
func (h *handler) Park(ctx context.Context, wait func(context.Context) error) error {
	if !h.runtime.parked.Try(h.workspace) {
		return queue.ErrParked
	}
	defer h.runtime.parked.Release(h.workspace)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.stop, func() { cancel(context.Cause(h.stop)) })()
	if !h.leave(true) {
		return wait(ctx)
	}
	h.workers.Release(h.workspace)
	err := wait(ctx)
	if gone := h.workers.Acquire(ctx, h.workspace); gone != nil {
		if err == nil {
			err = gone
		}
		return err
	}
	h.leave(false)
	return err
}

// leave records whether the worker is released. It returns false if that does
// not change.
func (h *handler) leave(away bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.away != away
	h.away = away
	return changed
}

// done releases the worker when the handler returns.
func (h *handler) done() {
	if h.leave(true) {
		h.workers.Release(h.workspace)
	}
}
