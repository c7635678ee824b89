package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// TestReconciliationLeavesDueTaskToItsMessage checks a task whose message is
// about to be received.
func TestReconciliationLeavesDueTaskToItsMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("nap", `{"tasks":[{"name":"nap","type":"wait","config":{"seconds":60}}]}`)
		id := w.run("nap").ID
		w.steal()
		c := w.hand("one")
		require.NoError(t, c.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		require.Equal(t, 1, w.waiting())
		time.Sleep(65 * time.Second)
		require.NoError(t, c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
		assert.Equal(t, 1, w.waiting(), "its own message")
		w.steal()
		time.Sleep(time.Minute)
		require.NoError(t, c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
		assert.Equal(t, 1, w.waiting(), "one for that which was lost")
	})
}

// TestCopyOfMessageEndsAtNextWait handles messages of a task that waits by now:
// those that cannot be the message that the task waits for are not sent on,
// otherwise copies would live as long as the task waits.
func TestCopyOfMessageEndsAtNextWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(m *events.Run, due clock.Millis)
		deliveries int
		sent       bool
	}{
		"of an earlier attempt":                 {deliveries: 1},
		"of an earlier attempt, redelivered":    {deliveries: 2, sent: true},
		"of an earlier attempt, sent anew":      {change: func(m *events.Run, _ clock.Millis) { m.Again = true }, deliveries: 1, sent: true},
		"of another wait":                       {change: func(m *events.Run, due clock.Millis) { m.Attempt, m.Due = 2, int64(due)-1 }, deliveries: 1},
		"of this wait":                          {change: func(m *events.Run, due clock.Millis) { m.Attempt, m.Due = 2, int64(due) }, deliveries: 1, sent: true},
		"of a wait, sent by an earlier version": {change: func(m *events.Run, _ clock.Millis) { m.Attempt, m.Delay = 2, 900_000 }, deliveries: 1, sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				w.task("a", func(context.Context, *executor.Attempt) executor.Result {
					return executor.Failed(executor.TaskFailed, "no")
				})
				w.register("f", with(spec("a"), map[string]map[string]any{"a": {"retries": 1, "retry_backoff": map[string]any{"delay_secs": 3600}}}))
				id := w.run("f").ID
				w.steal()
				one := w.hand("one")
				require.NoError(t, one.Handle(w.ctx, message(events.RunStart, id, 0), 1))
				item := w.nodes(id)["a"]
				require.Equal(t, engine.Retrying, item.Status)
				require.Equal(t, 1, w.waiting())
				m := message(events.RunTask, id, 0)
				if c.change != nil {
					c.change(&m, item.Due)
				}
				require.NoError(t, one.Handle(w.ctx, m, c.deliveries))
				assert.Equal(t, c.sent, w.waiting() == 2)
				assert.Equal(t, item, w.nodes(id)["a"])
			})
		})
	}
}

// TestReconciliationAfterRestartEndsRun reconciles a run whose tasks are all
// finished, and whose worker died before it ended the run.
func TestReconciliationAfterRestartEndsRun(t *testing.T) {
	t.Parallel()
	for sinks, flow := range map[int]string{1: spec("a"), 2: spec("a", "b")} {
		t.Run(itoa(sinks), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{died: make(chan struct{})}
				w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { m.Table = inner; return m } })
				w.register("f", flow)
				w.task("b", func(context.Context, *executor.Attempt) executor.Result {
					time.Sleep(time.Second) // the last
					return ok("1")
				})
				ended := 0
				m.fatal = func(u table.Update, _ table.Item) bool {
					if finishes(u) {
						ended++
					}
					return ended == sinks
				}
				id := w.run("f").ID
				<-m.died
				w.kill()
				m.mu.Lock()
				m.fatal = nil
				m.mu.Unlock()
				w.reborn()
				w.rt.Stop(w.ctx) // no message ends it
				require.Equal(t, engine.Running, w.get(id).Status)
				w.load(slog.Default())
				require.NoError(t, w.c.Reconcile(w.ctx, org, id))
				assert.Equal(t, engine.Succeeded, w.get(id).Status)
			})
		})
	}
}

// queried is a table that counts queries.
type queried struct {
	table.Table
	n atomic.Int64
}

func (q *queried) Query(ctx context.Context, query table.Query) (table.Page, error) {
	q.n.Add(1)
	return q.Table.Query(ctx, query)
}

// TestConcurrentReconciliationsAreOne checks that of several that a late tick
// requests one reads the run's nodes, and that a later one reads them again.
func TestConcurrentReconciliationsAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", nap)
		id := w.run("f").ID
		q := &queried{Table: w.plain}
		c := w.hand("one", func(cfg *worker.Config) { cfg.Table = q })
		require.NoError(t, c.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		time.Sleep(time.Minute)
		var read []int64
		for _, after := range []time.Duration{0, time.Second, time.Second, time.Minute} {
			time.Sleep(after)
			before := q.n.Load()
			require.NoError(t, c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
			read = append(read, q.n.Load()-before)
		}
		assert.Equal(t, []int64{read[0], 0, 0, read[0]}, read)
		assert.Positive(t, read[0])
	})
}

// TestReconciliationLeavesWorkerAlone checks a worker that has written the end
// of its task and is about to propagate it.
func TestReconciliationLeavesWorkerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", spec("a", "b", "c: a b"))
		id := w.run("f").ID
		w.steal()
		reconciler, ended := w.hand("reconciler"), 0
		tbl := &unwritable{Table: w.plain, hook: func(u table.Update) {
			if !finishes(u) {
				return
			}
			if ended++; ended == 2 {
				require.NoError(t, reconciler.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
				assert.Zero(t, w.waiting(), "c has no message")
			}
		}}
		c := w.hand("one", func(cfg *worker.Config) { cfg.Table = tbl })
		require.NoError(t, c.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		w.steal()
		require.NoError(t, c.Handle(w.ctx, message(events.RunTask, id, 1), 1))
		assert.Equal(t, 4, ended, "the tasks and the run")
		assert.Equal(t, engine.Succeeded, w.get(id).Status)
	})
}

// TestReconciliationsSendFewMessages checks their number while waiting messages
// are not received.
func TestReconciliationsSendFewMessages(t *testing.T) {
	t.Parallel()
	const roots = 40
	for name, c := range map[string]struct {
		dies            bool // the worker of the first task
		after           time.Duration
		reconcile       func(w *world, c handed, id string) error
		reconciliations int
		more            int // messages at most
	}{
		"restarts": {false, 20 * time.Minute, func(w *world, c handed, id string) error {
			return c.Reconcile(w.ctx, org, id)
		}, 5, 0},
		"backlog": {false, 20 * time.Minute, func(w *world, c handed, id string) error {
			return c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1)
		}, 1, 10},
		"lost lease": {true, time.Minute, func(w *world, c handed, id string) error {
			time.Sleep(time.Minute)
			return c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1)
		}, 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				var tasks []string
				for i := range roots {
					tasks = append(tasks, "p"+itoa(i))
				}
				w.register("f", spec(tasks...))
				id := w.run("f").ID
				w.steal()
				one := w.hand("one")
				require.NoError(t, one.Handle(w.ctx, message(events.RunStart, id, 0), 1))
				if c.dies {
					p := faults.NewPlan(t, 1, faults.Rates{}, w.plain, clock.System{}).Process("dies", nil)
					w.task("p0", func(context.Context, *executor.Attempt) executor.Result {
						p.Kill()
						return ok("1")
					})
					ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
					defer cancel()
					_ = w.hand("dies", func(cfg *worker.Config) { cfg.Table = p.Table() }).Handle(ctx, message(events.RunTask, id, 0), 1)
					require.Equal(t, engine.Running, w.status(id, "p0"))
				}
				waiting := w.waiting()
				require.Equal(t, roots, waiting)
				time.Sleep(c.after)
				for range c.reconciliations {
					require.NoError(t, c.reconcile(w, one, id))
				}
				assert.LessOrEqual(t, w.waiting(), waiting+c.more)
			})
		})
	}
}

// TestReconciliationOfBacklogIsRepeatedSoon checks that a run is reconciled
// again when the messages in front of its own may have been received.
func TestReconciliationOfBacklogIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", spec("a", "b"))
		id := w.run("f").ID
		c := w.hand("one")
		require.NoError(t, c.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		require.Positive(t, w.waiting())
		time.Sleep(8 * time.Minute)
		require.NoError(t, c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
		next := fmt.Sprintf("%013d", time.Now().Add(4*time.Minute+time.Second).UnixMilli())
		assert.Less(t, w.get(id).DueSK, next, "half its age")
	})
}
