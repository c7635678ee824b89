package worker

import (
	"context"
	"sync"
)

// maxWaiting is the size in bytes of the results waiting to be stored at which
// no more attempts begin.
const maxWaiting = 64 << 20

// results counts the bytes of results that wait because a store failed.
type results struct {
	mu    sync.Mutex
	bytes int
	room  chan struct{} // closed when the size is below maxWaiting again; nil while it is
}

// wait counts a result until the returned function is called.
func (r *results) wait(bytes int) (forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += bytes
	if r.bytes > maxWaiting && r.room == nil {
		r.room = make(chan struct{})
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bytes -= bytes
		if r.bytes <= maxWaiting && r.room != nil {
			close(r.room)
			r.room = nil
		}
	}
}

// admit waits until there is room for the result of another attempt.
func (r *results) admit(ctx context.Context) error {
	for {
		r.mu.Lock()
		room := r.room
		r.mu.Unlock()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
