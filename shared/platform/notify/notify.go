// Package notify tells goroutines of one process that the state they wait for
// may have changed. A signal only saves polling: a woken goroutine must read
// the store, and a waiting one must also poll occasionally, because another
// process may have made the change.
package notify

import "sync"

// Broker delivers signals by name. The zero Broker is ready to use; a nil
// Broker delivers nothing.
type Broker struct {
	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{}
}

// Wait returns a channel that receives once name is signalled after this call,
// and a function that ends the wait.
func (b *Broker) Wait(name string) (woken <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	if b == nil {
		return ch, func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiters == nil {
		b.waiters = map[string]map[chan struct{}]struct{}{}
	}
	if b.waiters[name] == nil {
		b.waiters[name] = map[chan struct{}]struct{}{}
	}
	b.waiters[name][ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiters[name], ch)
		if len(b.waiters[name]) == 0 {
			delete(b.waiters, name)
		}
	}
}

// Signal wakes all goroutines that wait for name.
func (b *Broker) Signal(name string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.waiters[name] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
