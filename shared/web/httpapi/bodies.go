package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"millrace/shared/platform/errs"
)

const (
	firstRead = 4 << 10         // first allocation, in bytes, for a body of unknown size
	bodyWait  = 5 * time.Second // how long a body waits for memory
	slowBody  = 5 * time.Second // a body that takes longer to arrive may be dropped
	slowShare = 1024            // if it holds at least this fraction of the limit
)

// Bodies bounds the memory of a process's request bodies, each from its first
// bytes until its handler has returned. A body gets memory as its bytes arrive,
// whatever length it announces. If none is left, it waits for a while, and the
// slowest of the bodies that have been arriving for five seconds or more is
// dropped. A body that gets no memory is answered with 503. A nil Bodies has no
// bound.
type Bodies struct {
	limit int64

	mu     sync.Mutex
	used   int64
	coming map[*held]struct{}
	freed  chan struct{} // closed when memory was released
}

// NewBodies returns a bound of limit bytes.
func NewBodies(limit int64) *Bodies {
	return &Bodies{limit: limit, coming: map[*held]struct{}{}, freed: make(chan struct{})}
}

// Used returns the number of bytes held.
func (b *Bodies) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// held is the memory held by one body.
type held struct {
	of      *Bodies
	began   time.Time
	stop    func() // cancels a read in progress
	bytes   int64
	dropped bool // dropped for others
}

// begin admits a body, which holds no memory yet.
func (b *Bodies) begin(w http.ResponseWriter) *held {
	if b == nil {
		return nil
	}
	h := &held{of: b, began: time.Now()}
	control := http.NewResponseController(w)
	h.stop = func() { _ = control.SetReadDeadline(time.Now()) } // otherwise the read ends with the next bytes
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming[h] = struct{}{}
	return h
}

// grow requests n more bytes. Errors: errs.Unavailable, and ctx's.
func (h *held) grow(ctx context.Context, n int) error {
	if h == nil {
		return nil
	}
	b := h.of
	var patience <-chan time.Time
	for {
		b.mu.Lock()
		if h.dropped {
			b.mu.Unlock()
			return h.noMemory()
		}
		if b.used+int64(n) <= b.limit {
			b.used += int64(n)
			h.bytes += int64(n)
			b.mu.Unlock()
			return nil
		}
		b.makeRoom()
		freed := b.freed
		b.mu.Unlock()
		if patience == nil {
			patience = time.After(bodyWait)
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return h.noMemory()
		}
	}
}

// makeRoom drops the slowest body, if one is slow.
func (b *Bodies) makeRoom() {
	now := time.Now()
	var slowest *held
	var least float64
	for h := range b.coming {
		age := now.Sub(h.began)
		if age < slowBody || h.bytes < b.limit/slowShare {
			continue
		}
		if rate := float64(h.bytes) / age.Seconds(); slowest == nil || rate < least {
			slowest, least = h, rate
		}
	}
	if slowest != nil {
		slowest.dropped = true
		slowest.stop()
		delete(b.coming, slowest)
	}
}

// noMemory returns the error of a body that got no memory.
func (h *held) noMemory() error {
	e := errs.New(errs.Unavailable, "The request bodies that the server is reading take all the memory that it has for them, try again")
	e.RetryAfter = 2 * time.Second
	return e
}

// gaveWay reports whether the body was dropped for others.
func (h *held) gaveWay() bool {
	if h == nil {
		return false
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.dropped
}

// shrink releases n bytes.
func (h *held) shrink(n int) {
	if h == nil || n == 0 {
		return
	}
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(h, int64(n))
}

func (b *Bodies) giveBack(h *held, n int64) {
	h.bytes -= n
	b.used -= n
	close(b.freed)
	b.freed = make(chan struct{})
}

// came ends the reading: the body can no longer be dropped.
func (h *held) came() {
	if h == nil {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.coming, h)
}

// release releases all memory. Further calls do nothing.
func (h *held) release() {
	if h == nil {
		return
	}
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.coming, h)
	if h.bytes > 0 {
		b.giveBack(h, h.bytes)
	}
}
