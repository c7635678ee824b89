package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// reborn starts a process that has none of the messages of the earlier one.
func (w *world) reborn() {
	w.queues = memory.Queues(w.t, clock.System{}, fixture.Queues(visibility))
	w.boot = "boot2"
	w.start(slog.Default())
}

// TestReconciliationsRepairAllLosses kills the worker after each write in turn,
// and loses all messages: reconciliations alone bring the run to its end, and
// nothing finished runs again.
func TestReconciliationsRepairAllLosses(t *testing.T) {
	t.Parallel()
	flow := strings.Replace(history, `{"tasks":[`, `{"tasks":[
 {"name":"z","type":"python","entrypoint":"m:f"},
 {"name":"one","type":"python","entrypoint":"m:f","depends_on":["a"],"map_over":"[7]"},`, 1)
	play := func(t *testing.T, last int) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{}
			died := make(chan struct{})
			w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
			w.playHistory()
			w.register("lost", flow)
			var once sync.Once
			f.arm(func(i int) (bool, bool) {
				if i >= last {
					once.Do(func() { close(died) })
				}
				return i > last, i == last
			})
			id := w.run("lost").ID
			if last == never {
				w.checkHistory(id, true)
				writes = f.disarm()
				return
			}
			select {
			case <-died:
			case <-time.After(time.Hour):
			}
			w.kill()
			f.disarm()
			noneAgain := w.finished(id)
			w.reborn()
			w.waitReconciling(id)
			w.checkHistory(id, false)
			noneAgain()
			for _, name := range []string{"z", "one[0]"} {
				assert.Equal(t, engine.Succeeded, w.status(id, name), name)
			}
		})
		return writes
	}
	for n := range play(t, never) {
		t.Run(itoa(n), func(t *testing.T) { // 0: only the first message is lost
			t.Parallel()
			play(t, n)
		})
	}
}

const never = 1 << 30

// mortal is a table whose user dies with an update chosen by the test: all
// later requests fail.
type mortal struct {
	table.Table
	mu    sync.Mutex
	fatal func(u table.Update, item table.Item) bool
	died  chan struct{}
}

func (m *mortal) dead() bool {
	select {
	case <-m.died:
		return true
	default:
		return false
	}
}

func (m *mortal) Update(ctx context.Context, u table.Update) (table.Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fatal != nil && m.dead() {
		return nil, errFault
	}
	item, err := m.Table.Update(ctx, u)
	if m.fatal != nil && err == nil && m.fatal(u, item) {
		close(m.died)
		return nil, errFault
	}
	return item, err
}

// TestReconciliationsContinueFromJoins kills the worker of a wide run when a
// join is notified of its first task, when it is notified of its last, and when
// the next join is notified of its first, and loses all messages:
// reconciliations continue from a join when it is complete, and not before. The
// join leads to a task, or to the end of the run.
func TestReconciliationsContinueFromJoins(t *testing.T) {
	t.Parallel()
	const width = 64 + 2
	for name, c := range map[string]struct {
		join, told int
		waits      bool // the first task is not finished
	}{
		"first of the first":  {0, 1, false},
		"last of the first":   {0, 64, false},
		"first of the second": {1, 1, true},
	} {
		for _, leads := range []string{"join", "END"} {
			t.Run(name+" "+leads, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					tasks, deps := []string{"root"}, ""
					for i := range width {
						tasks = append(tasks, fmt.Sprintf("p%d: root", i))
						deps += fmt.Sprintf(" p%d", i)
					}
					if leads == "join" {
						tasks = append(tasks, "join:"+deps)
					}
					fatal := fmt.Sprintf("%09d", len(tasks)+2+c.join) // the join's sort key: its number follows END and on_failure
					m := &mortal{died: make(chan struct{})}
					w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { m.Table = inner; return m } })
					dead := make(chan struct{})
					if c.waits {
						w.task("p0", func(context.Context, *executor.Attempt) executor.Result {
							<-dead
							return ok("1")
						})
					}
					w.register("wide", spec(tasks...))
					m.fatal = func(u table.Update, item table.Item) bool {
						var n runstate.Node
						return u.Key.SK == fatal && assert.NoError(t, table.Unmarshal(item, &n)) && len(n.OK) == c.told
					}
					id := w.run("wide").ID
					<-m.died
					close(dead)
					w.kill()
					m.mu.Lock()
					m.fatal = nil
					m.mu.Unlock()
					w.reborn()
					assert.Equal(t, engine.Succeeded, w.waitReconciling(id).Status)
					if leads == "join" {
						assert.Equal(t, len(w.ran)-1, slices.Index(w.ran, "join"), "it began last, once")
					}
					for _, name := range strings.Fields(deps) {
						assert.Equal(t, engine.Succeeded, w.status(id, name), name)
					}
				})
			})
		}
	}
}

// gatedBus records events, unless it is down.
type gatedBus struct {
	down bool
	kept []bus.Event
}

var errDown = errors.New("down")

func (b *gatedBus) Publish(_ context.Context, evs ...bus.Event) error {
	if b.down {
		return errDown
	}
	b.kept = append(b.kept, evs...)
	return nil
}

// TestEndOfRunIsPublishedAndArchived checks that a run that has ended stays due
// until its end is published and its log archived, whichever fails first.
func TestEndOfRunIsPublishedAndArchived(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"bus", "archive"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				b, f := &gatedBus{down: what == "bus"}, &faulty{Table: w.table}
				logs := &runlog.Store{Table: f, Blob: w.blob, Clock: clock.System{}, Log: w.logs.Log}
				c := w.hand("h", func(cfg *worker.Config) { cfg.Bus, cfg.Logs = b, logs })
				if what == "archive" {
					f.arm(func(int) (bool, bool) { return true, false })
				}
				w.register("f", spec("a"))
				id := w.run("f").ID
				err := c.Handle(w.ctx, message(events.RunStart, id, 0), 1)
				require.Error(t, err)
				run := w.get(id)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.False(t, run.Archived)
				assert.NotEmpty(t, run.DueSK)
				b.down = false
				f.disarm()
				err = c.Handle(w.ctx, message(events.RunReconcile, id, 0), 1)
				require.NoError(t, err)
				run = w.get(id)
				assert.True(t, run.Archived)
				assert.Empty(t, run.DueSK)
				require.Len(t, b.kept, 1)
				assert.Equal(t, events.DetailRunFinished, b.kept[0].DetailType)
				assert.Equal(t, id, b.kept[0].DedupeKey, "however often it is published")
				page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
				require.NoError(t, err)
				assert.Equal(t, runlog.Archive, page.Source)
				assert.Contains(t, kinds(t, page), "a "+runlog.TypeTaskSucceeded)
			})
		})
	}
}

// kinds returns the events of a page, as task and type.
func kinds(t *testing.T, page runlog.Page) []string {
	var out []string
	for _, raw := range page.Events {
		var e runlog.Event
		require.NoError(t, json.Unmarshal(raw, &e))
		out = append(out, e.TaskName+" "+e.EventType)
	}
	return out
}

// hooked is a table that calls a hook after the first update of an item.
type hooked struct {
	table.Table
	key  table.Key
	once sync.Once
	hook func()
}

func (h *hooked) Update(ctx context.Context, u table.Update) (table.Item, error) {
	item, err := h.Table.Update(ctx, u)
	if err == nil && u.Key == h.key {
		h.once.Do(h.hook)
	}
	return item, err
}

// TestNoLogIsLost has two workers without log buffers between messages. One
// ends the run right after the other notified it of its task, or sent the next
// one to the queue: the log has the lines of both.
func TestNoLogIsLost(t *testing.T) {
	t.Parallel()
	// worker has a log of its own, so its buffer is not shared.
	worker := func(w *world, boot string, tbl table.Table) handed {
		return w.hand(boot, func(cfg *worker.Config) {
			cfg.Table, cfg.LongLived = tbl, false
			cfg.Logs = &runlog.Store{Table: w.table, Blob: w.blob, Clock: clock.System{}, Log: w.logs.Log}
		})
	}
	check := func(w *world, id string, tasks ...string) {
		assert.Equal(w.t, engine.Succeeded, w.get(id).Status)
		page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
		require.NoError(w.t, err)
		assert.Equal(w.t, runlog.Archive, page.Source)
		for _, name := range tasks {
			assert.Contains(w.t, kinds(w.t, page), name+" "+runlog.TypeTaskSucceeded)
		}
	}
	t.Run("told", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := still(t)
			w.register("f", spec("a", "b", "join: a b"))
			id := w.run("f").ID
			other := worker(w, "other", w.table)
			h := &hooked{Table: w.table, key: runstate.NodeKey(org, id, 2), hook: func() {
				err := other.Handle(w.ctx, message(events.RunTask, id, 1), 1)
				assert.NoError(t, err)
				check(w, id, "a", "b", "join") // the first worker no longer matters
			}}
			err := worker(w, "one", h).Handle(w.ctx, message(events.RunStart, id, 0), 1)
			require.NoError(t, err)
			check(w, id, "a", "b", "join")
		})
	})
	t.Run("passed on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := still(t)
			w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": {"timeout_secs": 600}}))
			id := w.run("f").ID
			ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
			defer cancel()
			err := worker(w, "one", w.table).Handle(ctx, message(events.RunStart, id, 0), 1)
			require.NoError(t, err)
			err = worker(w, "other", w.table).Handle(w.ctx, message(events.RunTask, id, 1), 1)
			require.NoError(t, err)
			check(w, id, "a", "b")
		})
	})
}

// TestMapOfInlineTask lets each write of a map fail whose task had no message
// of its own.
func TestMapOfInlineTask(t *testing.T) {
	t.Parallel()
	// The worker that starts the run continues with the first root; a has a
	// message.
	flow := with(spec("first", "a", "each: a", "sum: each"), map[string]map[string]any{"each": {"map_over": "[1, 2]"}})
	play := func(t *testing.T, n int, after bool) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{}
			w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
			w.register("f", flow)
			id := w.run("f").ID
			f.arm(func(i int) (bool, bool) { return i == n && !after, i == n && after })
			run := w.wait(id)
			assert.Equal(t, engine.Succeeded, run.Status)
			assert.Less(t, run.Duration(), worker.ReconcileEvery.Milliseconds(), "its message came again: no reconciliation had to repair it")
			assert.GreaterOrEqual(t, w.times("each"), 2)
			writes = f.disarm()
		})
		return writes
	}
	for n := range play(t, never, false) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n+1, after), func(t *testing.T) {
				t.Parallel()
				play(t, n+1, after)
			})
		}
	}
}
