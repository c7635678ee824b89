package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"millrace/shared/platform/errs"
)

const (
	firstRead = 4 << 10         // bytes that a body of unknown size is given at first
	bodyWait  = 5 * time.Second // a body waits so long for memory
	slowBody  = 5 * time.Second // one that takes longer to come gives way to others
	slowShare = 1024            // if it has at least this part of the limit
)

// Bodies bounds what the request bodies of a process hold in memory, each from its
// first bytes until its handler has returned. A body is given memory as its bytes
// come, whatever length it announces. When there is none left, it waits a while,
// and what takes longest to come gives way: the slowest of the bodies that have been
// coming for five seconds or longer. Who gets none is answered 503. A nil Bodies has
// no bound.
type Bodies struct {
	limit int64

	mu     sync.Mutex
	used   int64
	coming map[*held]struct{}
	freed  chan struct{} // closed when memory was given back
}

// NewBodies makes a bound of so many bytes.
func NewBodies(limit int64) *Bodies {
	return &Bodies{limit: limit, coming: map[*held]struct{}{}, freed: make(chan struct{})}
}

// Used is how many bytes are held now.
func (b *Bodies) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// held is what one body holds.
type held struct {
	of      *Bodies
	began   time.Time
	stop    func() // ends a read under way
	bytes   int64
	dropped bool // it gave way
}

// begin admits a body, which holds nothing yet.
func (b *Bodies) begin(w http.ResponseWriter) *held {
	if b == nil {
		return nil
	}
	h := &held{of: b, began: time.Now()}
	control := http.NewResponseController(w)
	h.stop = func() { _ = control.SetReadDeadline(time.Now()) } // else it ends when more comes
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming[h] = struct{}{}
	return h
}

// grow asks for n more bytes. Errors: errs.Unavailable, and ctx's.
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
			return h.refused()
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
			return h.refused()
		}
	}
}

// makeRoom lets the slowest body give way, if one is slow.
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

// refused is the error of a body that is given no memory.
func (h *held) refused() error {
	e := errs.New(errs.Unavailable, "The request bodies that the server is reading take all the memory that it has for them, try again")
	e.RetryAfter = 2 * time.Second
	return e
}

// gaveWay reports whether the body's read was ended for others.
func (h *held) gaveWay() bool {
	if h == nil {
		return false
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.dropped
}

// shrink gives n bytes back.
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

// came ends the reading: the body gives way to nobody any more.
func (h *held) came() {
	if h == nil {
		return
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.coming, h)
}

// release gives all of it back; again it does nothing.
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
