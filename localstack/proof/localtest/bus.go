package localtest

import (
	"context"
	"slices"
	"sync"

	"millrace/shared/platform/bus"
)

// Bus records published events.
type Bus struct {
	mu     sync.Mutex
	events []bus.Event
}

// Publish implements bus.Bus.
func (b *Bus) Publish(_ context.Context, events ...bus.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, events...)
	return nil
}

// Published returns the events so far, limited to the given detail types if
// there are any.
func (b *Bus) Published(detailTypes ...string) []bus.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []bus.Event
	for _, e := range b.events {
		if len(detailTypes) == 0 || slices.Contains(detailTypes, e.DetailType) {
			out = append(out, e)
		}
	}
	return out
}
