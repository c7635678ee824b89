package faults

import (
	"context"
	"time"

	"millrace/shared/platform/clock"
)

// Port is the target of a request.
type Port string

// The ports whose requests can fail.
const (
	Tables  Port = "table"
	Logs    Port = "log" // the table, as the log store uses it
	Queues  Port = "queue"
	Objects Port = "object"
	Bus     Port = "bus"
)

// Outage is a period during which requests of one port fail, in addition to the
// [Rates].
type Outage struct {
	Port        Port
	From, Until time.Time
	Rate        float64 // of failing requests, from 0 to 1
	Hang        bool    // requests do not respond instead of failing
}

// Patience is how long a request hangs unless its context ends before. Then the
// driver gives up.
const Patience = time.Minute

// Break adds outages.
func (p *Plan) Break(outages ...Outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outages = append(p.outages, outages...)
}

// down draws whether a request meets an outage. The caller holds mu.
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

// hang waits like a request without a response. The request is not applied.
func hang(ctx context.Context) error {
	if err := clock.Sleep(ctx, Patience); err != nil {
		return err
	}
	return ErrInjected
}
