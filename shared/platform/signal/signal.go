// Package signal tells goroutines of one process that the state they wait for
// may have changed. A signal only saves polling: a woken goroutine must read
// the store, and a waiting one must also poll occasionally, because another
// process may have made the change.
package signal

import "sync"

// Hub delivers signals by name. The zero Hub is ready to use; a nil Hub
// delivers nothing.
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

// Signal wakes all goroutines that wait for name.
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
