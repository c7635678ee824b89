package queuetest

import (
	"context"
	"sync"
	"time"

	"millrace/shared/platform/queue"
)

// recorded is the set of the port's methods that were called.
type recorded struct {
	mu      sync.Mutex
	methods map[string]bool
}

func (r *recorded) add(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.methods == nil {
		r.methods = make(map[string]bool)
	}
	r.methods[method] = true
}

func (r *recorded) has(method string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.methods[method]
}

// recorder records the calls of a driver.
type recorder struct {
	calls *recorded
	next  queue.Queues
}

var _ queue.Queues = (*recorder)(nil)

func (r *recorder) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	r.calls.add("Send")
	return r.next.Send(ctx, name, msgs...)
}

func (r *recorder) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	r.calls.add("Receive")
	return r.next.Receive(ctx, name, max, wait)
}

func (r *recorder) Delete(ctx context.Context, name string, receipts ...string) error {
	r.calls.add("Delete")
	return r.next.Delete(ctx, name, receipts...)
}

func (r *recorder) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	r.calls.add("Extend")
	return r.next.Extend(ctx, name, d, receipts...)
}

func (r *recorder) Depth(ctx context.Context, name string) (int, error) {
	r.calls.add("Depth")
	return r.next.Depth(ctx, name)
}

func (r *recorder) Stats(ctx context.Context, name string) (queue.Stats, error) {
	r.calls.add("Stats")
	return r.next.Stats(ctx, name)
}
