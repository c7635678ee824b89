package faults

import (
	"context"
	"time"
)

// Port is what a request is made of.
type Port string

// The ports whose requests fail.
const (
	Tables  Port = "table"
	Logs    Port = "log" // the table as the store of logs uses it
	Queues  Port = "queue"
	Objects Port = "object"
	Bus     Port = "bus"
)

// Outage is a time during which requests of one port fail, on top of the
// [Rates].
type Outage struct {
	Port        Port
	From, Until time.Time
	Rate        float64 // of requests that fail, from 0 to 1
	Hang        bool    // they give no answer instead of an error
}

// Patience is how long a request hangs unless its context ends before: then the
// driver gives it up.
const Patience = time.Minute

// Break has outages come.
func (p *Plan) Break(outages ...Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outages = append(p.outages, outages...)
}

// down draws whether a request meets an outage; the caller holds mu.
func (p *Plan) down(r Request) (fault, bool) {
	now := p.clock.Now()
	for _, o := range p.outages {
		if o.Port != r.Port || now.Before(o.From) || !now.Before(o.Until) || p.rng.Float64() >= o.Rate {
			continue
		}
		if o.Hang {
			p.count(r, "hang")
			return fault{hang: true}, true
		}
		p.count(r, "outage")
		if p.rng.IntN(8) == 0 {
			return fault{after: ErrInjected}, true
		}
		return fault{before: ErrInjected}, true
	}
	return fault{}, false
}

// hang waits as a request does that gets no answer. It was not done.
func hang(ctx context.Context) error {
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return ErrInjected
	}
}
