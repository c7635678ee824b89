package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/slots"
	"millrace/shared/run/worker"
)

// wide is a flow of n tasks beside each other.
func wide(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("t%03d", i)
	}
	return spec(names...)
}

// slotted is a world whose workspace runs so many Python tasks at once, each for
// ten seconds.
func slotted(t *testing.T, limit int64) (*world, *remotes) {
	w, r := remote(t, 1, remoteOdds{})
	r.limit, r.takes = limit, []time.Duration{10 * time.Second}
	r.serves("one", faults.Rates{}, 1)
	return w, r
}

func (r *remotes) slots() *slots.Slots {
	return slots.New(slots.Config{
		Table: r.w.plain, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), All: r.all,
		Limit: func(string) (int64, bool) { return r.limit, r.limit > 0 },
	})
}

// held returns the slots that are held.
func (r *remotes) held() []slots.Slot {
	held, err := r.slots().Held(r.w.ctx, org)
	require.NoError(r.w.t, err)
	return held
}

// line returns the number of nodes that wait for a slot.
func (r *remotes) line() int64 {
	n, err := table.Count(r.w.ctx, r.w.plain, table.Query{Index: table.Due, PK: slots.Waiting(org, "", 0, time.Time{}).DuePK})
	require.NoError(r.w.t, err)
	return n
}

func (r *remotes) mostAtOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most[org]
}

// idle asserts that nothing is held and nothing waits.
func (r *remotes) idle() {
	r.w.t.Helper()
	synctest.Wait()
	assert.Empty(r.w.t, r.held())
	assert.Zero(r.w.t, r.line())
	assert.Empty(r.w.t, r.problems)
}

// TestTasksWaitForSlots runs more tasks than the workspace may: the others wait,
// and each begins when another one has ended, without reconciliations.
func TestTasksWaitForSlots(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1, 2, 16, 20} {
		synctest.Test(t, func(t *testing.T) {
			w, r := slotted(t, limit)
			tasks := int(3 * limit)
			w.register("f", wide(tasks))
			id := w.run("f").ID
			time.Sleep(5 * time.Second)
			waiting := 0
			for _, item := range w.nodes(id) {
				if item.Status == engine.Queued {
					waiting++
					assert.Equal(t, fmt.Sprintf("Its workspace runs %d Python tasks, as many as its limit allows (running-tasks). It begins when one of them ends.", limit), item.Reason)
					assert.Zero(t, item.LeaseUntil)
				}
			}
			assert.Equal(t, tasks-int(limit), waiting)
			assert.Len(t, r.held(), int(limit))
			assert.EqualValues(t, waiting, r.line())
			assert.Equal(t, engine.Succeeded, w.ends(id, 35*time.Second).Status)
			assert.Equal(t, int(limit), r.mostAtOnce())
			for name, item := range w.nodes(id) {
				assert.Equal(t, 1, item.Attempt, name)
			}
			r.idle()
		})
	}
}

// TestChainKeepsItsSlot: an attempt that is handed on has the slot of the one
// before, without a write of slots.
func TestChainKeepsItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 1)
		r.left = 15 * time.Minute
		w.register("f", spec("a", "b: a", "c: b"))
		id := w.run("f").ID
		time.Sleep(5 * time.Second)
		first := r.held()
		time.Sleep(20 * time.Second)
		assert.Equal(t, first, r.held())
		assert.Equal(t, first[0].String(), w.nodes(id)["c"].Slot)
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
		assert.Equal(t, 2, r.told["hand on"])
		r.idle()
	})
}

// TestRunsHaveTurns: a run of one task does not wait for all tasks of a wide run.
func TestRunsHaveTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 2)
		w.register("wide", wide(60))
		w.register("one", spec("a"))
		long := w.run("wide").ID
		time.Sleep(15 * time.Second)
		for range 3 {
			began := time.Now()
			assert.Equal(t, engine.Succeeded, w.ends(w.run("one").ID, 40*time.Second).Status)
			assert.Less(t, time.Since(began), 35*time.Second)
		}
		assert.Equal(t, engine.Succeeded, w.ends(long, 10*time.Minute).Status)
		assert.Equal(t, 2, r.mostAtOnce())
		r.idle()
	})
}

// TestStoppedRunsLeaveTheLine cancels a run of which tasks run, wait for their
// runner and wait for a slot: another run gets its slots at once.
func TestStoppedRunsLeaveTheLine(t *testing.T) {
	t.Parallel()
	for name, odds := range map[string]remoteOdds{"running": {}, "handed off": {Late: 1}, "dead": {Die: 1}} {
		synctest.Test(t, func(t *testing.T) {
			w, r := slotted(t, 2)
			r.odds = odds
			within := 10 * time.Second
			if odds.Die > 0 {
				within = worker.Lease + worker.CancelPoll
			}
			w.register("wide", wide(20))
			w.register("one", spec("a"))
			long := w.run("wide").ID
			time.Sleep(5 * time.Second)
			one := w.run("one").ID
			time.Sleep(3 * time.Second)
			assert.Equal(t, engine.Queued, w.status(one, "a"))
			_, err := w.launch.Cancel(w.ctx, org, long)
			require.NoError(t, err)
			r.mu.Lock()
			r.odds = remoteOdds{}
			r.mu.Unlock()
			assert.Equal(t, engine.Cancelled, w.ends(long, within).Status, name)
			assert.Equal(t, engine.Succeeded, w.ends(one, 20*time.Second).Status, name)
			time.Sleep(2 * time.Minute)
			r.idle()
		})
	}
}

// TestEveryEndFreesTheSlot: whatever ends an attempt, or lets it wait for
// something else, another task gets its slot within the time.
func TestEveryEndFreesTheSlot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(w *world, r *remotes)
		fields map[string]any
		within time.Duration
	}{
		"it fails":                  {func(_ *world, r *remotes) { r.fails["a"] = 1 }, nil, 25 * time.Second},
		"it retries":                {func(_ *world, r *remotes) { r.fails["a"] = 1 }, map[string]any{"retries": 1, "retry_backoff": map[string]any{"delay_secs": 300}}, 25 * time.Second},
		"its runner does not start": {func(_ *world, r *remotes) { r.odds.Unstarted = 1 }, nil, 25 * time.Second},
		"its runners die":           {func(w *world, r *remotes) { r.odds.Die = 1; w.ticking() }, nil, 6 * time.Minute},
		"it is refused":             {func(_ *world, r *remotes) { r.odds.Refuse = 1 }, nil, 25 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, r := slotted(t, 1)
			r.fated = "a"
			c.do(w, r)
			w.register("first", with(spec("a"), map[string]map[string]any{"a": c.fields}))
			w.register("second", spec("b"))
			first := w.run("first").ID
			time.Sleep(2 * time.Second)
			assert.Equal(t, engine.Succeeded, w.ends(w.run("second").ID, c.within).Status, name)
			assert.Equal(t, 1, r.mostAtOnce(), name)
			_, _ = w.launch.Cancel(w.ctx, org, first) // it may have ended
			time.Sleep(time.Minute)
			r.idle()
		})
	}
}

// TestLeftSlotsAreFreed: slots that dead processes left are freed, whether their
// runs have ended or live, when a task waits, and those in use are not.
func TestLeftSlotsAreFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 3)
		r.takes = []time.Duration{5 * time.Minute}
		w.register("f", wide(1))
		live := w.run("f").ID
		time.Sleep(time.Second)
		kept := r.held()
		require.Len(t, kept, 1)
		for i, run := range []string{live, "01GONE"} {
			slot, err := r.slots().Take(w.ctx, org, run, engine.Node(i))
			require.NoError(t, err)
			require.False(t, slot.None())
		}
		require.NoError(t, r.any().Reconcile(w.ctx, org, live))
		assert.Len(t, r.held(), 3, "those that have just been taken may be in use")
		w.register("second", wide(2))
		second := w.run("second").ID
		time.Sleep(time.Second)
		assert.EqualValues(t, 2, r.line())
		time.Sleep(50 * time.Second)
		w.ticking()
		time.Sleep(150 * time.Second)
		assert.Zero(t, r.line(), "within a minute of their run's reconciliation")
		held := r.held()
		assert.Contains(t, held, kept[0])
		assert.Len(t, held, 3)
		assert.Equal(t, engine.Succeeded, w.ends(second, 10*time.Minute).Status)
		assert.Equal(t, engine.Succeeded, w.ends(live, 10*time.Minute).Status)
		assert.Equal(t, 3, r.mostAtOnce())
		r.idle()
	})
}

// TestLimitMayBeChanged while tasks wait: more begin within a minute. When it is
// lowered, slots above it are not passed on.
func TestLimitMayBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.limit, r.takes = 2, []time.Duration{3 * time.Minute}
		process := r.serves("one", faults.Rates{}, 1)
		w.ticking()
		w.register("f", wide(30))
		id := w.run("f").ID
		time.Sleep(10 * time.Second)
		assert.Len(t, r.held(), 2)
		change := func(limit int64) {
			r.limit = limit
			r.mu.Lock()
			r.live = nil
			r.mu.Unlock()
			process.kill()
			process = r.serves(fmt.Sprint("limit", limit), faults.Rates{}, 1)
		}
		change(10)
		time.Sleep(2 * time.Minute)
		assert.Len(t, r.held(), 10)
		change(3)
		time.Sleep(7 * time.Minute)
		assert.Len(t, r.held(), 3)
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Hour).Status)
		r.idle()
	})
}

// TestReconcilerWithoutExecutorsFillsSlots: it enqueues what gets a slot. A slot
// was freed without its being passed on, as by a process that died.
func TestReconcilerWithoutExecutorsFillsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 2)
		r.takes = []time.Duration{4 * time.Minute}
		w.register("f", wide(3))
		id := w.run("f").ID
		time.Sleep(time.Second)
		held := r.held()
		require.Len(t, held, 2)
		assert.EqualValues(t, 1, r.line())
		require.NoError(t, r.slots().Release(w.ctx, org, held[0]))
		c := w.hand("dispatch", func(cfg *worker.Config) {
			cfg.Executors = nil
			cfg.Quota = quota.New(quota.Config{Table: cfg.Table, Clock: clock.System{}, Values: quota.Values{quota.RunningTasks: 2}})
		})
		require.NoError(t, c.Worker.Reconcile(w.ctx, org, id))
		time.Sleep(time.Second)
		assert.Zero(t, r.line())
		assert.Len(t, r.held(), 2)
		assert.Equal(t, 3, r.mostAtOnce(), "the first holder still runs")
		assert.Equal(t, engine.Succeeded, w.ends(id, 10*time.Minute).Status)
		r.idle()
	})
}

// beforeWait is a table that calls do before the write by which a node begins to
// wait for a slot.
type beforeWait struct {
	table.Table
	do func()
}

func (b beforeWait) Update(ctx context.Context, u table.Update) (table.Item, error) {
	for _, a := range u.Do {
		if set, ok := a.(table.ActSet); ok && set.Attr == runstate.DuePK && strings.HasPrefix(set.Value.Str(), org) {
			b.do()
		}
	}
	return b.Table.Update(ctx, u)
}

// TestLastSlotFreedMeanwhile: a slot gets free between the attempt's look for one
// and its wait. No other attempt ends, so nothing else would wake it.
func TestLastSlotFreedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, resend := range []float64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			w, r := remote(t, 1, remoteOdds{})
			r.limit = 1
			slot, err := r.slots().Take(w.ctx, org, "01ANOTHER", 0)
			require.NoError(t, err)
			w.table = beforeWait{w.table, func() { assert.NoError(t, r.slots().Release(w.ctx, org, slot)) }}
			r.serves("one", faults.Rates{Resend: resend}, 1)
			w.register("f", wide(1))
			assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, 20*time.Second).Status)
			r.idle()
		})
	}
}

// TestEveryWriteOfSlotsMayBeSentAgain has the driver lose the answer to each
// write, and send it again.
func TestEveryWriteOfSlotsMayBeSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.limit, r.takes = 2, []time.Duration{10 * time.Second}
		r.serves("one", faults.Rates{Resend: 1}, 1)
		w.register("f", wide(6))
		assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, 40*time.Second).Status)
		assert.Equal(t, 2, r.mostAtOnce())
		r.idle()
	})
}

// unclaimable is a table that fails the updates of a run's second node.
type unclaimable struct {
	table.Table
	fails *atomic.Bool
}

func (u unclaimable) Update(ctx context.Context, do table.Update) (table.Item, error) {
	if u.fails.Load() && do.Key.SK == "000000001" {
		return nil, table.ErrThrottled
	}
	return u.Table.Update(ctx, do)
}

// TestRunnerWithoutSlotMakesNoOther: a completion that failed half way keeps its
// slot, for it may have handed it on. When it is repeated, and the slot was taken
// for left meanwhile, it begins no other attempt without one.
func TestRunnerWithoutSlotMakesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		var fails atomic.Bool
		r.limit, r.vanish, w.table = 1, 2, unclaimable{w.table, &fails}
		p := r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a", "b: a"))
		id := w.run("f").ID
		time.Sleep(time.Second)
		c, own := p.c, worker.Runner{Attempt: ticket.Attempt{Org: org, Run: id, Node: 0, Number: 1, Task: "a", Nonce: w.nodes(id)["a"].Handed}, ID: "own"}
		_, err := c.Begin(w.ctx, own)
		require.NoError(t, err)
		answer, err := json.Marshal(answered{Attempt: id + "-0-1"})
		require.NoError(t, err)
		fails.Store(true)
		_, err = c.Continue(w.ctx, own, answer, 15*time.Minute)
		require.Error(t, err)
		require.Len(t, r.held(), 1)
		require.NoError(t, r.slots().Release(w.ctx, org, r.held()[0]))
		fails.Store(false)
		next, err := c.Continue(w.ctx, own, answer, 15*time.Minute)
		require.NoError(t, err)
		assert.Nil(t, next)
		held := r.held()
		require.Len(t, held, 1)
		assert.Equal(t, held[0].String(), w.nodes(id)["b"].Slot)
		w.ticking()
		assert.Equal(t, engine.Succeeded, w.ends(id, 10*time.Minute).Status)
		r.idle()
	})
}

// TestInlineTaskNeedsNoSlot: what a completion executes itself does not hold the
// slot of the attempt before.
func TestInlineTaskNeedsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := slotted(t, 1)
		r.left = 15 * time.Minute
		w.task("call", func(context.Context, *executor.Attempt) executor.Result {
			time.Sleep(20 * time.Second)
			return ok("null")
		})
		w.register("f", with(spec("a", "call: a", "c: call"), map[string]map[string]any{
			"call": {"type": "http", "entrypoint": nil, "config": map[string]any{"url": "https://example.com"}},
		}))
		w.register("second", spec("b"))
		first := w.run("f").ID
		time.Sleep(time.Second)
		assert.Equal(t, engine.Succeeded, w.ends(w.run("second").ID, 25*time.Second).Status)
		assert.Equal(t, engine.Succeeded, w.ends(first, time.Minute).Status)
		assert.Equal(t, 1, r.mostAtOnce())
		r.idle()
	})
}

// afterEnd is a table that calls do after the write that ends a node.
type afterEnd struct {
	table.Table
	do func()
}

func (a afterEnd) Update(ctx context.Context, u table.Update) (table.Item, error) {
	item, err := a.Table.Update(ctx, u)
	if strings.Contains(u.Key.PK, "#t0") && item[runstate.NodeStatus].Str() == string(engine.Succeeded) && item[runstate.NodeSlot].Str() != "" {
		a.do()
	}
	return item, err
}

// TestReconciliationKeepsASlotThatIsHandedOn reconciles the run when an attempt
// has ended and the next one does not have its slot yet.
func TestReconciliationKeepsASlotThatIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.limit, r.left, r.takes = 1, 15*time.Minute, []time.Duration{3 * time.Minute}
		plain := w.table
		var id string
		w.table = afterEnd{w.table, func() {
			c := w.hand("dispatch", func(cfg *worker.Config) {
				cfg.Table = plain
				cfg.Quota = quota.New(quota.Config{Table: plain, Clock: clock.System{}, Values: quota.Values{quota.RunningTasks: 1}})
			})
			assert.NoError(t, c.Worker.Reconcile(w.ctx, org, id))
		}}
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a", "b: a"))
		id = w.run("f").ID
		time.Sleep(4 * time.Minute)
		assert.Len(t, r.held(), 1)
		assert.Equal(t, engine.Running, w.status(id, "b"))
		assert.Equal(t, engine.Succeeded, w.ends(id, 10*time.Minute).Status)
		r.idle()
	})
}

// TestFencedRunGetsNoSlot: a slot gets free when a run that waits was cancelled
// and has not left the line yet.
func TestFencedRunGetsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.limit, r.vanish = 1, 1
		p := r.serves("one", faults.Rates{}, 1)
		w.register("f", wide(1))
		first := w.run("f").ID
		time.Sleep(time.Second)
		second := w.run("f").ID
		time.Sleep(time.Second)
		require.EqualValues(t, 1, r.line())
		own := worker.Runner{Attempt: ticket.Attempt{Org: org, Run: first, Number: 1, Task: "t000", Nonce: w.nodes(first)["t000"].Handed}, ID: "own"}
		_, err := p.c.Begin(w.ctx, own)
		require.NoError(t, err)
		p.rt.Stop(w.ctx) // so that no message is handled
		_, err = w.launch.Cancel(w.ctx, org, second)
		require.NoError(t, err)
		answer, err := json.Marshal(answered{Attempt: first + "-0-1"})
		require.NoError(t, err)
		require.NoError(t, p.c.Complete(w.ctx, own, answer))
		assert.Empty(t, w.nodes(second)["t000"].Handed)
		r.idle()
	})
}

// late is a table whose line of waiting nodes is late: of the queries of a part of
// it at one time, the first has the answer of the time before.
type late struct {
	table.Table
	mu    *sync.Mutex
	at    map[table.Range]time.Time
	knows map[table.Range]table.Page
}

func (l late) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := l.Table.Query(ctx, q)
	if q.Index != table.Due || !strings.HasPrefix(q.PK, org) || err != nil {
		return page, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old, known := l.knows[q.Range]
	first := !l.at[q.Range].Equal(time.Now())
	l.at[q.Range], l.knows[q.Range] = time.Now(), page
	if known && first {
		return old, nil
	}
	return page, nil
}

// TestLineMayBeLate: nodes that the line still has got slots before, and have
// ended.
func TestLineMayBeLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.limit, r.takes = 1, []time.Duration{10 * time.Second}
		w.table = late{w.table, &sync.Mutex{}, map[table.Range]time.Time{}, map[table.Range]table.Page{}}
		r.serves("one", faults.Rates{}, 1)
		w.register("f", wide(4))
		assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, 45*time.Second).Status)
		assert.Equal(t, 1, r.mostAtOnce())
		r.idle()
	})
}
