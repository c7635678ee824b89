// Package faults makes tables, queues, object stores and buses fail like those
// of a cloud: requests are throttled, fail before or after they are applied,
// hang, conflict with transactions; indexes lag; messages are lost, late, out
// of order or duplicated; a service is down for a while; and a process dies at
// a write. Faults are drawn from a seed. With [Steps] as the gate, the order of
// all requests is drawn as well, so that a history can be replayed.
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

// Errors of requests that were made to fail.
var (
	// ErrInjected means that the request failed. It may have been applied.
	ErrInjected = errors.New("faults: injected fault")
	// ErrDead means that the requesting process is dead.
	ErrDead = errors.New("faults: the process is dead")
)

// Rates are the probabilities, from 0 to 1, of faults of requests and messages.
// A single draw decides on a request, so the rates of one kind of request must
// add up to at most 1.
type Rates struct {
	Throttle float64 // table.ErrThrottled, not applied
	Before   float64 // ErrInjected, not applied
	After    float64 // ErrInjected, but applied; of several writes, possibly only some
	Conflict float64 // table.ErrConflict of a write, not applied
	Resend   float64 // a write of the table is applied and sent again by the driver, which lost the response; not for transactions
	Stale    float64 // a query of an index sees an earlier state

	Lose      float64 // an accepted message is never delivered
	Late      float64 // a message is delivered up to a minute late
	Duplicate float64 // a message is delivered one to five times more
}

// staleFor is the longest lag of an index.
const staleFor = 2 * time.Second

// late is the longest delay of a message.
const late = time.Minute

// Plan draws the faults for all processes on one store.
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

// NewPlan returns a plan for processes that share a table, until the test ends.
// The same seed draws the same faults for the same requests in the same order.
func NewPlan(t memory.T, seed uint64, rates Rates, store table.Table, now clock.Clock) *Plan {
	return &Plan{
		clock: now, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), rates: rates,
		store: store, replica: newReplica(t, now), counts: map[string]int{},
	}
}

// Calm stops all faults.
func (p *Plan) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates, p.outages = Rates{}, nil
}

// Tell calls told for every fault with its name and the request that it made
// fail; faults of messages and indexes have no request. told must not make
// requests.
func (p *Plan) Tell(told func(r Request, fault string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = told
}

// Counts returns the number of injected faults by name.
func (p *Plan) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]int, len(p.counts))
	for k, n := range p.counts {
		out[k] = n
	}
	return out
}

// fault decides the outcome of a request.
type fault struct {
	before error // fail with it, without applying the request
	after  error // apply the request and fail with it
	hang   bool  // do not respond for long
	resend bool  // apply it twice, and return the second result
}

// draw draws the outcome of a request.
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
			x = 2 // none of the others
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

// count counts a fault and reports it. The caller holds mu.
func (p *Plan) count(r Request, name string) {
	p.counts[name]++
	if p.told != nil {
		p.told(r, name)
	}
}

// chance draws an event with a probability. The caller holds mu.
func (p *Plan) chance(name string, rate float64) bool {
	if rate <= 0 || p.rng.Float64() >= rate {
		return false
	}
	p.count(Request{}, name)
	return true
}

// Request is a request waiting at a gate.
type Request struct {
	Process   string
	Operation string // the method's name
	Subject   string // the key or the queue
	Port      Port
	Caller    string // see As
}

// caller is the key of a context value.
type caller struct{}

// As names the caller of requests made with a context. Otherwise equal requests
// of one process are ordered by the caller's name in [Steps], whichever arrived
// first.
func As(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, caller{}, name)
}

// Gate decides when a request proceeds. Enter returns when it is its turn, or
// when ctx ends.
type Gate interface {
	Enter(ctx context.Context, r Request) error
}

// Process is one process's view of the store and the queues. Its wrappers are
// safe for concurrent use.
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

// Process returns a process; gate may be nil.
func (p *Plan) Process(name string, gate Gate) *Process {
	return &Process{plan: p, name: name, gate: gate, died: make(chan struct{})}
}

// CrashAt makes the process die at its n-th write from now, 1 for the next,
// before or after it is applied. 0 cancels it.
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

// Died returns a channel that is closed when the process is dead.
func (p *Process) Died() <-chan struct{} { return p.died }

// enter waits for the request's turn and draws its outcome.
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

// decide returns the outcome of a request whose turn it is.
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
