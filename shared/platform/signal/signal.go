// Package signal tells goroutines of one process that something they wait for
// may have happened. It is a hint that saves polling, never the truth: whoever
// is woken reads the store, and whoever waits also looks by itself at times,
// because the news may have been made in another process.
package signal

import "sync"

// Hub carries signals by name. The zero Hub is ready; a nil Hub carries nothing.
type Hub struct {
	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{}
}

// Wait returns a channel that receives once name is signalled after this call,
// and a function that ends the wait.
func (h *Hub) Wait(name string) (woken <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	if h == nil {
		return ch, func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiters == nil {
		h.waiters = map[string]map[chan struct{}]struct{}{}
	}
	if h.waiters[name] == nil {
		h.waiters[name] = map[chan struct{}]struct{}{}
	}
	h.waiters[name][ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiters[name], ch)
		if len(h.waiters[name]) == 0 {
			delete(h.waiters, name)
		}
	}
}

// Signal wakes whoever waits for name.
func (h *Hub) Signal(name string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.waiters[name] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
