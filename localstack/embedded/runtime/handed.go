package runtime

import (
	"context"
	"slices"
	"sync"

	"millrace/shared/platform/queue"
)

// Handed tracks the messages that one invocation of a function sent, until they
// are settled: handled by their functions, or given up.
type Handed struct {
	runtime *Runtime

	mu      sync.Mutex
	open    int
	pending map[sent]int  // number of each
	settled chan struct{} // holds a value if all may be settled
}

// sent identifies a message as its function receives it. Equal messages are
// interchangeable.
type sent struct{ queue, body string }

type handedKey struct{}

// Track returns a context for one [Runtime.Invoke], and the Handed that tracks
// the messages sent in it. The caller must call [Handed.Close].
func (r *Runtime) Track(ctx context.Context) (context.Context, *Handed) {
	h := &Handed{runtime: r, pending: map[sent]int{}, settled: make(chan struct{}, 1)}
	r.trackedMu.Lock()
	defer r.trackedMu.Unlock()
	r.tracked = append(r.tracked, h)
	return context.WithValue(ctx, handedKey{}, h), h
}

// Wait waits until all messages sent so far are settled, or until ctx ends,
// whose cause it then returns.
func (h *Handed) Wait(ctx context.Context) error {
	for {
		h.mu.Lock()
		open := h.open
		h.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-h.settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close forgets unsettled messages.
func (h *Handed) Close() {
	h.runtime.trackedMu.Lock()
	defer h.runtime.trackedMu.Unlock()
	h.runtime.tracked = slices.DeleteFunc(h.runtime.tracked, func(other *Handed) bool { return other == h })
}

// add adds n messages of a kind, or removes them if n is negative. It returns
// false if there is none to remove.
func (h *Handed) add(m sent, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending[m]+n < 0 {
		return false
	}
	if h.pending[m] += n; h.pending[m] == 0 {
		delete(h.pending, m)
	}
	if h.open += n; h.open == 0 {
		select {
		case h.settled <- struct{}{}:
		default:
		}
	}
	return true
}

// settle records that a message is handled or given up.
func (r *Runtime) settle(queue string, body []byte) {
	r.trackedMu.Lock()
	defer r.trackedMu.Unlock()
	for _, h := range r.tracked {
		if h.add(sent{queue, string(body)}, -1) {
			return
		}
	}
}

// tracking records messages sent in a context of [Runtime.Track].
type tracking struct{ queue.Queues }

// Send implements queue.Queues. A message may be handled before Send returns.
func (q tracking) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	h, _ := ctx.Value(handedKey{}).(*Handed)
	if h == nil {
		return q.Queues.Send(ctx, name, msgs...)
	}
	for _, m := range msgs {
		h.add(sent{name, string(m.Body)}, 1)
	}
	err := q.Queues.Send(ctx, name, msgs...)
	if err != nil { // the sender counts them as failures
		for _, m := range msgs {
			h.add(sent{name, string(m.Body)}, -1)
		}
	}
	return err
}
