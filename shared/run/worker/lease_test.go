package worker

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// lease models a node's item for its claims, renewals, releases and ends. Times
// are milliseconds.
type lease struct {
	holder string // the nonce; "" before the first claim, and after a release
	until  int64
	due    int64 // no claim before
	ended  bool

	lost      int  // number of expired leases that were taken over
	suspended bool // it was released until a later time
}

// Operations on a lease.
const (
	claims   = "claim"
	renews   = "renew"
	suspends = "suspend" // releases it until a later time
	ends     = "end"
)

// leaseCall is one operation. at is the caller's time, nonce identifies its
// lease. A claim returns its nonce.
type leaseCall struct {
	kind  string
	nonce string
	at    int64
	due   int64
	id    int64
}

// leaseAnswer is the result of an operation.
type leaseAnswer struct {
	done    bool
	nonce   string
	unknown bool // the response was lost: the operation may have been executed
	raced   bool // other operations were concurrent: a claim may fail for that reason alone
}

func (l lease) claimed(nonce string, at int64) lease {
	if l.holder != "" {
		l.lost++
	}
	return lease{holder: nonce, until: at + Lease.Milliseconds(), lost: l.lost, suspended: l.suspended}
}

// heldBack is the lease after a claim that takes over after several lost ones:
// the task is delayed.
func (l lease) heldBack(at int64) lease {
	return lease{due: at + HoldBack.Milliseconds(), lost: l.lost + 1}
}

// leaseModel is a register with one holder at a time.
var leaseModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{lease{}} },
	Step: func(state, input, output any) []any {
		now, in, out := state.(lease), input.(leaseCall), output.(leaseAnswer)
		mine := in.nonce != "" && now.holder == in.nonce && !now.ended
		may, next := mine, now
		switch in.kind {
		case claims:
			may = !now.ended && now.due <= in.at && (now.holder == "" || now.until <= in.at)
			if may && now.holder != "" && !now.suspended && now.lost+1 >= FewLost {
				switch {
				case out.done:
					return nil
				case out.unknown || out.raced:
					return []any{now, now.heldBack(in.at)}
				}
				return []any{now.heldBack(in.at)}
			}
			if out.unknown {
				out.nonce = fmt.Sprint("lost with call ", in.id)
			}
			next = now.claimed(out.nonce, in.at)
		case renews:
			next.until = in.at + Lease.Milliseconds()
		case suspends:
			next = lease{due: in.due, lost: now.lost, suspended: true}
		case ends: // repeated by the same worker, it succeeds again
			may = in.nonce != "" && now.holder == in.nonce
			next.ended = true
		}
		switch {
		case out.unknown && may:
			return []any{now, next}
		case out.unknown:
			return []any{now}
		case out.done && may:
			return []any{next}
		case !out.done && (!may || in.kind == claims && out.raced):
			return []any{now}
		}
		return nil
	},
}).ToModel()

// TestLeasesAreLinearizable lets several workers claim, renew, release and end
// one node over a store that fails, in drawn orders, while time passes: there
// is an order in which each response is that of a register with one holder.
func TestLeasesAreLinearizable(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(300) {
		var history []porcupine.Operation
		synctest.Test(t, func(t *testing.T) { history = leaseHistory(t, seed) })
		result := porcupine.CheckOperationsTimeout(leaseModel, history, 10*time.Second)
		require.Equal(t, porcupine.Ok, result, "seed %d: %+v", seed, history)
		for _, op := range history {
			in, out := op.Input.(leaseCall), op.Output.(leaseAnswer)
			seen[fmt.Sprintf("%s done %t, unknown %t", in.kind, out.done, out.unknown)]++
			if in.kind == claims && !out.unknown && !out.raced {
				seen[fmt.Sprintf("alone, done %t", out.done)]++
			}
		}
	}
	for _, kind := range []string{claims, renews, ends} {
		for _, of := range []string{"done true, unknown false", "done false, unknown false", "done false, unknown true"} {
			least := 20
			if kind+" "+of == claims+" done false, unknown true" {
				least = 0 // a failed claim is repeated
			}
			assert.Greater(t, seen[kind+" "+of], least, "%s %s", kind, of)
		}
	}
	for _, other := range []string{suspends + " done false, unknown true", "alone, done true", "alone, done false"} {
		assert.Greater(t, seen[other], 20, other)
	}
}

// leaseHistory plays the history of a seed, which determines which requests
// fail and in which order they are executed.
func leaseHistory(t *testing.T, seed uint64) []porcupine.Operation {
	store := memory.Table(t, clock.System{})
	run := runstate.Run{Key: runstate.RunKey("org", "run"), Org: "org", ID: "run", Status: engine.Running}
	require.NoError(t, store.Put(t.Context(), table.Put{Item: run}))
	plan := faults.NewPlan(t, seed, faults.Rates{Throttle: .03, Before: .03, After: .06}, store, clock.System{})
	gate := faults.NewSteps()
	h := &leases{store: store, queues: memory.Queues(t, clock.System{}, []queue.Definition{{Name: events.Tasks("nano"), Visibility: time.Minute}})}
	var wg sync.WaitGroup
	for client := range 4 {
		p := plan.Process(fmt.Sprint("worker", client), gate)
		rng := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() { h.work(t, client, p.Table(), rng) })
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	gate.Play(rand.New(rand.NewPCG(seed, 99)), synctest.Wait, Lease/3, over)
	for i := range h.history {
		out := h.history[i].Output.(leaseAnswer)
		for j, other := range h.history {
			out.raced = out.raced || i != j && other.Call < h.history[i].Return && other.Return > h.history[i].Call
		}
		h.history[i].Output = out
	}
	return h.history
}

// leases records a history.
type leases struct {
	store   *pebbletable.Table
	queues  *pebblequeue.Queues
	tick    atomic.Int64 // orders calls and responses
	mu      sync.Mutex
	history []porcupine.Operation
}

// work executes a worker's operations one after the other.
func (h *leases) work(t *testing.T, client int, tbl table.Table, rng *rand.Rand) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	logs := &runlog.Store{Table: h.store, Blob: &blobtest.Memory{}, Clock: clock.System{}, Log: log}
	c := New(Config{Table: tbl, Queues: h.queues, Clock: clock.System{}, Log: log, Logs: logs, ProcessID: fmt.Sprint("boot", client)})
	nonce := ""
	for range 10 {
		time.Sleep(time.Duration(rng.Int64N(int64(Lease)))) // often no other is concurrent
		in := leaseCall{kind: claims, nonce: nonce, at: time.Now().UnixMilli(), id: h.tick.Add(1)}
		if nonce != "" {
			in.kind = []string{renews, renews, renews, claims, suspends, ends}[rng.IntN(6)]
		}
		in.due = in.at + rng.Int64N(Lease.Milliseconds())
		out := h.call(t, c.session("org", "run"), in)
		if in.kind == claims && out.done {
			nonce = out.nonce
		}
		h.mu.Lock()
		h.history = append(h.history, porcupine.Operation{ClientId: client, Input: in, Call: in.id, Output: out, Return: h.tick.Add(1)})
		h.mu.Unlock()
	}
}

func (h *leases) call(t *testing.T, s *session, in leaseCall) leaseAnswer {
	a := newDriver(s).attempts
	ctx, w := t.Context(), &attempt{item: &runstate.Node{Nonce: in.nonce}, task: &flowspec.Task{}}
	switch in.kind {
	case claims:
		r := ready{attempt: 1} // a message names its attempt
		if item, err := runstate.LoadNode(ctx, h.store, "org", "run", 0); assert.NoError(t, err) && item != nil {
			r.attempt = item.Attempt
		}
		mine, _, err := a.claim(ctx, r)
		if mine == nil {
			return leaseAnswer{unknown: err != nil}
		}
		return leaseAnswer{done: true, nonce: mine.Nonce}
	case renews:
		why, _, err := a.renew(ctx, 0, in.nonce)
		return leaseAnswer{done: err == nil && why == "", unknown: err != nil}
	case suspends: // does not return the result
		_ = a.suspend(ctx, w, time.UnixMilli(in.due))
		return leaseAnswer{unknown: true}
	}
	item, err := a.conclude(ctx, w, engine.Succeeded, []table.Action{table.Remove(runstate.NodeLease)}, concluded(w))
	return leaseAnswer{done: item != nil, unknown: err != nil}
}

// TestLeaseModelRejectsInvalidHistories checks the model with histories that no
// register with one holder has.
func TestLeaseModelRejectsInvalidHistories(t *testing.T) {
	t.Parallel()
	const over = int64(30_000) // when the first lease expires
	yes, no := leaseAnswer{done: true}, leaseAnswer{}
	call := func(kind, nonce string, at int64) leaseCall { return leaseCall{kind: kind, nonce: nonce, at: at} }
	gets := func(nonce string) leaseAnswer { return leaseAnswer{done: true, nonce: nonce} }
	type step struct {
		in  leaseCall
		out leaseAnswer
	}
	first := step{call(claims, "", 0), gets("a")}
	takes := step{call(claims, "", over), gets("b")}
	for name, c := range map[string]struct {
		steps []step
		want  porcupine.CheckResult
	}{
		"a lease, and another after it":  {[]step{first, {call(renews, "a", 10), yes}, {call(claims, "", over+10), gets("b")}, {call(renews, "a", over+10), no}}, porcupine.Ok},
		"two live leases":                {[]step{first, {call(claims, "", over-1), gets("b")}}, porcupine.Illegal},
		"a claim rejected after expiry":  {[]step{first, {call(claims, "", over), no}}, porcupine.Illegal},
		"a claim during a renewed lease": {[]step{first, {call(renews, "a", 10), yes}, takes}, porcupine.Illegal},
		"a renewal of a lost lease":      {[]step{first, takes, {call(renews, "a", over+1), yes}}, porcupine.Illegal},
		"an end of a lost lease":         {[]step{first, takes, {call(ends, "a", over+1), yes}}, porcupine.Illegal},
		"a claim after the end":          {[]step{first, {call(ends, "a", 1), yes}, takes}, porcupine.Illegal},
		"a renewal after the end":        {[]step{first, {call(ends, "a", 1), yes}, {call(renews, "a", 2), yes}}, porcupine.Illegal},
		"a repeated end":                 {[]step{first, {call(ends, "a", 1), leaseAnswer{unknown: true}}, {call(ends, "a", 2), yes}}, porcupine.Ok},
		"a claim before its time":        {[]step{first, {leaseCall{kind: suspends, nonce: "a", due: 50}, yes}, {call(claims, "", 49), gets("b")}}, porcupine.Illegal},
		"a lease of an unknown claim":    {[]step{{call(claims, "", 0), leaseAnswer{unknown: true}}, {call(claims, "", 1), no}, takes}, porcupine.Ok},
		"a third lost lease":             {[]step{first, takes, {call(claims, "", 2*over), gets("c")}, {call(claims, "", 3*over), gets("d")}}, porcupine.Illegal},
		"a delayed task":                 {[]step{first, takes, {call(claims, "", 2*over), gets("c")}, {call(claims, "", 3*over), no}, {call(claims, "", 5*over), gets("d")}}, porcupine.Ok},
		"a task delayed too briefly":     {[]step{first, takes, {call(claims, "", 2*over), gets("c")}, {call(claims, "", 3*over), no}, {call(claims, "", 4*over), gets("d")}}, porcupine.Illegal},
		"a claim rejected without cause": {[]step{{call(claims, "", 0), no}}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var history []porcupine.Operation
			for i, s := range c.steps {
				history = append(history, porcupine.Operation{Input: s.in, Output: s.out, Call: int64(2 * i), Return: int64(2*i + 1)})
			}
			assert.Equal(t, c.want, porcupine.CheckOperationsTimeout(leaseModel, history, time.Second))
		})
	}
}
