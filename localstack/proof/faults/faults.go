// Package faults makes tables, queues, object stores and buses fail as those of a
// cloud do: requests are throttled, fail before or after they are done, hang, meet
// transactions; indexes lag; messages are lost, late, out of order or delivered
// several times; a service is down for a while; and a process dies at a write.
// What fails is drawn from a seed. With a [Steps] as the gate the order of all
// requests is drawn as well, so that a history can be played again.
package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// The errors of requests that were made to fail.
var (
	// ErrInjected: the request failed; whether it was done is not known.
	ErrInjected = errors.New("faults: injected fault")
	// ErrDead: the process that makes the request is dead.
	ErrDead = errors.New("faults: the process is dead")
)

// Rates are the probabilities, from 0 to 1, of what may go wrong with a request
// or a message. Of a request they are told apart by one draw, so those of one
// kind of request add up to at most 1.
type Rates struct {
	Throttle float64 // table.ErrThrottled, nothing done
	Before   float64 // ErrInjected, nothing done
	After    float64 // ErrInjected, done all the same; of many writes, some may be
	Conflict float64 // table.ErrConflict of a write, nothing done
	Resend   float64 // a write of the table is done, and sent again by the driver, which lost its answer; no transaction
	Stale    float64 // a query of an index sees an earlier state

	Lose      float64 // a message that was accepted never arrives
	Late      float64 // a message comes up to a minute late
	Duplicate float64 // a message comes one to five times more
}

// staleFor is the longest an index lags.
const staleFor = 2 * time.Second

// late is the longest a message comes late.
const late = time.Minute

// Plan draws what fails, for all processes on one store.
type Plan struct {
	clock clock.Clock

	mu      sync.Mutex
	rng     *rand.Rand
	rates   Rates
	outages []Outage
	told    func(r Request, fault string)
	store   table.Table
	replica *replica
	counts  map[string]int
}

// NewPlan makes a plan for processes that share a table, until the test ends. The
// same seed draws the same for the same requests in the same order.
func NewPlan(t memory.T, seed uint64, rates Rates, store table.Table, now clock.Clock) *Plan {
	return &Plan{
		clock: now, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), rates: rates,
		store: store, replica: newReplica(t, now), counts: map[string]int{},
	}
}

// Calm ends the faults: from here on everything goes well.
func (p *Plan) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates, p.outages = Rates{}, nil
}

// Tell has a function called for every fault with its name, and with the request
// that it made fail; one of a message or of an index has none. It must not make
// requests.
func (p *Plan) Tell(told func(r Request, fault string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = told
}

// Counts tells how often each fault was injected, by name.
func (p *Plan) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]int, len(p.counts))
	for k, n := range p.counts {
		out[k] = n
	}
	return out
}

// fault is what becomes of a request.
type fault struct {
	before error // fail with it, and do nothing
	after  error // do it, and fail with it
	hang   bool  // give no answer for long
	resend bool  // do it twice, and answer what the second time says
}

// draw decides of a request.
func (p *Plan) draw(write bool, r Request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, down := p.down(r); down {
		return f
	}
	x := p.rng.Float64()
	hit := func(name string, rate float64) bool {
		if x -= rate; x < 0 && rate > 0 {
			p.count(r, name)
			x = 2 // no other
			return true
		}
		return false
	}
	switch {
	case hit("throttle", p.rates.Throttle):
		return fault{before: table.ErrThrottled}
	case hit("before", p.rates.Before):
		return fault{before: ErrInjected}
	case hit("after", p.rates.After):
		return fault{after: ErrInjected}
	case write && hit("conflict", p.rates.Conflict):
		return fault{before: table.ErrConflict}
	case write && r.Port == Tables && hit("resend", p.rates.Resend):
		return fault{resend: true}
	}
	return fault{}
}

// count counts a fault and tells of it; the caller holds mu.
func (p *Plan) count(r Request, name string) {
	p.counts[name]++
	if p.told != nil {
		p.told(r, name)
	}
}

// chance draws an event of a probability; the caller holds mu.
func (p *Plan) chance(name string, rate float64) bool {
	if rate <= 0 || p.rng.Float64() >= rate {
		return false
	}
	p.count(Request{}, name)
	return true
}

// Request is a request that waits at a gate.
type Request struct {
	Process   string
	Operation string // the method's name
	Subject   string // the key's or the queue's
	Port      Port
	Caller    string // see As
}

// caller is the key of a context's value.
type caller struct{}

// As names who makes requests with a context. Of requests of one process that
// are otherwise alike, the one whose caller's name sorts first comes first in
// the order of [Steps], whichever came to wait first.
func As(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, caller{}, name)
}

// Gate decides when a request is made. Enter returns when it is its turn, or
// when ctx ends.
type Gate interface {
	Enter(ctx context.Context, r Request) error
}

// Process is what one process sees of the store and the queues. Its wrappers
// are safe for concurrent use.
type Process struct {
	plan *Plan
	name string
	gate Gate

	mu      sync.Mutex
	writes  int
	crashAt int
	after   bool
	died    chan struct{}
	dead    bool
}

// Process makes a process; gate may be nil.
func (p *Plan) Process(name string, gate Gate) *Process {
	return &Process{plan: p, name: name, gate: gate, died: make(chan struct{})}
}

// CrashAt has the process die at its n-th write from now, 1 for the next:
// before it is done, or after. 0 calls it off.
func (p *Process) CrashAt(n int, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.crashAt, p.after = 0, n, after
}

// Kill ends the process: everything it does from now on fails.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.die()
}

func (p *Process) die() {
	if !p.dead {
		p.dead = true
		close(p.died)
	}
}

// Died is closed when the process is dead.
func (p *Process) Died() <-chan struct{} { return p.died }

// enter waits for the request's turn and decides what becomes of it.
func (p *Process) enter(ctx context.Context, port Port, write bool, operation, subject string) fault {
	by, _ := ctx.Value(caller{}).(string)
	r := Request{p.name, operation, subject, port, by}
	if p.gate != nil {
		if err := p.gate.Enter(ctx, r); err != nil {
			return fault{before: err}
		}
	}
	f := p.decide(write, r)
	if f.hang {
		return fault{before: hang(ctx)}
	}
	return f
}

// decide says what becomes of a request whose turn it is.
func (p *Process) decide(write bool, r Request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return fault{before: ErrDead}
	}
	if write && p.crashAt > 0 {
		if p.writes++; p.writes >= p.crashAt {
			p.die()
			if p.after {
				return fault{after: ErrDead}
			}
			return fault{before: ErrDead}
		}
	}
	return p.plan.draw(write, r)
}
