package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

var errFault = errors.New("injected fault")

// faulty is a table with failing writes.
type faulty struct {
	table.Table
	mu     sync.Mutex
	writes int
	armed  bool
	// fault returns whether the n-th write, from 1, fails before it is executed,
	// or after, so that only its response is lost.
	fault func(n int) (before, after bool)
}

func (f *faulty) next() (before, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return false, false
	}
	f.writes++
	return f.fault(f.writes)
}

// arm starts to count writes.
func (f *faulty) arm(fault func(int) (bool, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.writes, f.fault = true, 0, fault
}

func (f *faulty) disarm() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.writes
}

func (f *faulty) Put(ctx context.Context, p table.Put) error {
	before, after := f.next()
	if before {
		return errFault
	}
	return lose(f.Table.Put(ctx, p), after)
}

func (f *faulty) Update(ctx context.Context, u table.Update) (table.Item, error) {
	before, after := f.next()
	if before {
		return nil, errFault
	}
	item, err := f.Table.Update(ctx, u)
	if err = lose(err, after); err != nil {
		return nil, err
	}
	return item, nil
}

func (f *faulty) BatchWrite(ctx context.Context, ws []table.Write) error {
	before, after := f.next()
	if before {
		return errFault
	}
	return lose(f.Table.BatchWrite(ctx, ws), after)
}

func lose(err error, lost bool) error {
	if err == nil && lost {
		return errFault
	}
	return err
}

// history is a flow with all features: a map, a join, a retry, a false
// condition, a tolerated failure, and on_failure.
const history = `{"tasks":[
 {"name":"a","type":"python","entrypoint":"m:f"},
 {"name":"b","type":"python","entrypoint":"m:f","depends_on":["a"],"retries":1},
 {"name":"each","type":"python","entrypoint":"m:f","depends_on":["a"],"map_over":"tasks.a.output"},
 {"name":"skip","type":"python","entrypoint":"m:f","depends_on":["b"],"condition":"1 == 2"},
 {"name":"nap","type":"wait","depends_on":["a"],"config":{"seconds":3}},
 {"name":"sum","type":"python","entrypoint":"m:f","depends_on":["each","b","nap"]},
 {"name":"bad","type":"python","entrypoint":"m:f","depends_on":["sum"]},
 {"name":"late","type":"python","entrypoint":"m:f","depends_on":["bad","skip"]}
 ],"on_failure":{"name":"page","type":"python","entrypoint":"m:f"}}`

func (w *world) playHistory() {
	w.task("a", func(context.Context, *executor.Attempt) executor.Result { return ok(`[1,2,3]`) })
	w.task("b", func(_ context.Context, a *executor.Attempt) executor.Result {
		if a.Number == 1 {
			return executor.Failed(executor.TaskFailed, "once")
		}
		return ok(`"b"`)
	})
	w.task("sum", func(ctx context.Context, a *executor.Attempt) executor.Result {
		v, err := a.Output(ctx, "each")
		if err != nil || string(v.JSON) != "[null,null,null]" {
			return executor.Final(executor.TaskFailed, "each handed on %s, %v", v.JSON, err)
		}
		return ok(`6`)
	})
	w.task("bad", func(context.Context, *executor.Attempt) executor.Result {
		return executor.Final(executor.TaskFailed, "as written")
	})
	w.register("history", history)
}

// checkHistory asserts that the history ended as it must.
func (w *world) checkHistory(id string, exact bool) {
	run := w.wait(id)
	assert.Equal(w.t, engine.Failed, run.Status)
	assert.Regexp(w.t, `^1 of (8|10) tasks failed: bad \(as written\)$`, run.Error)
	nodes := w.nodes(id)
	for name, want := range map[string]engine.Status{
		"a": engine.Succeeded, "b": engine.Succeeded, "each": engine.Succeeded, "each[0]": engine.Succeeded,
		"each[2]": engine.Succeeded, "skip": engine.Skipped, "nap": engine.Succeeded, "sum": engine.Succeeded,
		"bad": engine.Failed, "late": engine.UpstreamFailed, "page": engine.Succeeded,
	} {
		if assert.Contains(w.t, nodes, name) {
			assert.Equal(w.t, want, nodes[name].Status, name)
			assert.Empty(w.t, nodes[name].LeaseUntil, "no lease outlives the run")
		}
	}
	if exact {
		for name, n := range map[string]int{"a": 1, "b": 2, "each": 3, "sum": 1, "bad": 1, "page": 1, "skip": 0, "late": 0} {
			assert.Equal(w.t, n, w.times(name), "%s ran", name)
		}
	}
}

// countWrites returns the number of writes of the history.
func countWrites(t *testing.T) int {
	var n int
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{}
		w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
		w.playHistory()
		f.arm(func(int) (bool, bool) { return false, false })
		w.checkHistory(w.run("history").ID, true)
		n = f.disarm()
	})
	return n
}

// TestEveryWriteMayFail lets each write of a history fail in turn, before it is
// executed and after: the run ends as usual, and no finished attempt runs
// again.
func TestEveryWriteMayFail(t *testing.T) {
	t.Parallel()
	total := countWrites(t)
	require.Greater(t, total, 25)
	for n := 1; n <= total; n++ {
		for _, after := range []bool{false, true} {
			name := "before " + itoa(n)
			if after {
				name = "after " + itoa(n)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := &faulty{}
					w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
					w.playHistory()
					id := w.run("history").ID
					f.arm(func(i int) (bool, bool) { return i == n && !after, i == n && after })
					// A claim whose response is lost leaves a lease, so a new attempt follows.
					w.checkHistory(id, false)
				})
			})
		}
	}
}

// finished records which tasks of a run have succeeded, and returns a function
// that asserts that none of them ran again.
func (w *world) finished(id string) (noneAgain func()) {
	before := map[string]int{}
	for name, item := range w.nodes(id) {
		if item.Status == engine.Succeeded {
			before[name] = w.times(name)
		}
	}
	return func() {
		for name, n := range before {
			assert.Equal(w.t, n, w.times(name), "%s had finished and ran again", name)
		}
	}
}

// TestEveryWriteMayBeTheLast kills the worker at each write in turn: all its
// later requests fail. A new process reconciles the run, and it ends; no
// finished task runs again.
func TestEveryWriteMayBeTheLast(t *testing.T) {
	t.Parallel()
	total := countWrites(t)
	for n := 1; n <= total; n++ {
		for _, after := range []bool{false, true} {
			name := "before " + itoa(n)
			if after {
				name = "after " + itoa(n)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := &faulty{}
					died := make(chan struct{})
					w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
					w.playHistory()
					var once sync.Once
					f.arm(func(i int) (bool, bool) {
						if i >= n {
							once.Do(func() { close(died) })
						}
						return i > n || i == n && !after, i == n && after
					})
					id := w.run("history").ID
					select {
					case <-died:
					case <-time.After(time.Hour):
					}
					w.kill()
					f.disarm()
					noneAgain := w.finished(id)
					w.boot = "boot2"
					w.start(slog.Default())
					require.NoError(t, w.c.Reconcile(w.ctx, org, id))
					w.checkHistory(id, false)
					noneAgain()
				})
			})
		}
	}
}

// TestLostLeasesEndTheTask loses a worker ten times.
func TestLostLeasesEndTheTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan struct{}, 100)
		w.task("doomed", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			began <- struct{}{}
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", spec("doomed"))
		id := w.run("f").ID
		for i := range worker.MaxLost {
			<-began
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			w.rt.Stop(gone) // stops without completing the attempt
			w.boot = "boot" + itoa(i+2)
			w.start(slog.Default())
			require.NoError(t, w.c.Reconcile(w.ctx, org, id))
		}
		run := w.wait(id)
		assert.Equal(t, engine.Failed, run.Status)
		item := w.nodes(id)["doomed"]
		assert.Equal(t, executor.WorkerLost, item.ErrorType)
		assert.Equal(t, worker.MaxLost, item.Lost)
		assert.Equal(t, worker.MaxLost, w.times("doomed"))
	})
}
