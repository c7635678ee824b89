//go:build unix

package interpreters

import (
	"sync/atomic"
	"time"
)

// tick is the interval of ticks.
const tick = 10 * time.Millisecond

// ticks measures time for all interpreters of a pool, while any has a task or
// had one just before. A timer for each would cost a short task more than the
// rest of its bookkeeping.
type ticks struct {
	going atomic.Bool
	start chan struct{}
}

// wake starts the ticks if they do not run.
func (t *ticks) wake() {
	if !t.going.Load() {
		select {
		case t.start <- struct{}{}:
		default:
		}
	}
}

// tickers runs until the pool is closed.
func (p *Pool) tickers() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		ticker.Stop()
		select {
		case <-p.clock.start:
		case <-p.closed:
			return
		}
		p.clock.going.Store(true)
		ticker.Reset(tick)
		// A caller that found the ticks running just before they end is served by one
		// more tick.
		for idle := 0; idle < 2; {
			select {
			case <-ticker.C:
			case <-p.closed:
				return
			}
			if idle++; p.tick() {
				idle = 0
			}
			p.clock.going.Store(idle == 0)
		}
	}
}

// tick passes a tick to every interpreter. It returns false if none needs
// further ticks.
func (p *Pool) tick() bool {
	p.mu.Lock()
	all := make([]*interpreter, 0, len(p.all))
	for c := range p.all {
		all = append(all, c)
	}
	p.mu.Unlock()
	active := false
	for _, c := range all {
		active = c.tick() || active
	}
	return active
}
