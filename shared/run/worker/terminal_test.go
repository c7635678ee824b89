package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// seen is a reader's view of a run that has ended.
type seen struct {
	run   runstate.Run
	nodes map[string]string // statuses of tasks and instances that have one
}

// see reads a run as the API does.
func (w *world) see(id string) seen {
	s := seen{run: w.get(id), nodes: map[string]string{}}
	s.run.Archived, s.run.DueEntry = false, table.DueEntry{} // not shown to readers
	for name, n := range w.nodes(id) {
		if n.Status != "" {
			s.nodes[name] = fmt.Sprintf("%s %d %s %s %s %q %q %q %d %d", n.Status, n.Attempt, n.StartedAt, n.EndedAt, n.ErrorType, n.Error, n.Output, n.OutputRef, n.OutputSize, len(n.History))
		}
	}
	return s
}

// unchanged asserts that a reader's last view equals the first. A task that was
// not in the first never ran: it may only become cancelled.
func unchanged(t *testing.T, first, last seen) {
	t.Helper()
	assert.Equal(t, first.run, last.run)
	for name, was := range first.nodes {
		assert.Equal(t, was, last.nodes[name], name)
		status, _, _ := strings.Cut(was, " ")
		assert.True(t, engine.Status(status).Terminal(), "%s of a run that is over is %s", name, status)
	}
	for name, is := range last.nodes {
		if _, there := first.nodes[name]; !there {
			assert.True(t, strings.HasPrefix(is, string(engine.Cancelled)), "%s became %s", name, is)
		}
	}
}

// wideFlow returns a flow of a root, 90 tasks after it and a join.
func wideFlow() string {
	tasks, deps := []string{"root"}, ""
	for i := range 90 {
		tasks = append(tasks, fmt.Sprintf("p%d: root", i))
		deps += fmt.Sprintf(" p%d", i)
	}
	return spec(append(tasks, "join:"+deps)...)
}

// TestEndedRunDoesNotChange stops a run by a cancel or by its deadline while a
// worker is propagating a task's end.
func TestEndedRunDoesNotChange(t *testing.T) {
	t.Parallel()
	mapped := with(spec("each", "sum: each"), map[string]map[string]any{"each": {"map_over": "lists.range(3)"}})
	fails := func(w *world) {
		w.task("root", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Final(executor.TaskFailed, "no")
		})
	}
	for name, c := range map[string]struct {
		flow   string
		script func(*world)
		stop   func(n int, u table.Update) bool // at the n-th node ended by an update; 0: none yet
		object string                           // or when an object of that name was stored
	}{
		"walk begins":    {flow: wideFlow(), script: fails, stop: func(n int, _ table.Update) bool { return n == 1 }},
		"walk":           {flow: wideFlow(), script: fails, stop: func(n int, _ table.Update) bool { return n == 40 }},
		"join":           {flow: wideFlow(), script: fails, stop: func(n int, u table.Update) bool { return n == 91 && !finishes(u) }},
		"map's last":     {flow: mapped, script: func(*world) {}, stop: func(n int, _ table.Update) bool { return n == 3 }},
		"map's join":     {flow: mapped, script: func(*world) {}, stop: func(n int, u table.Update) bool { return n == 3 && !finishes(u) }},
		"map's list":     {flow: mapped, script: handsOn("each", 2*large), object: "-list.json"},
		"failed map":     {flow: mapped, script: failsOnce("each"), stop: func(n int, _ table.Update) bool { return n == 3 }},
		"large output":   {flow: spec("root", "next: root"), script: handsOn("root", 2*large), object: "/out/"},
		"before the end": {flow: spec("root"), script: func(*world) {}, stop: func(n int, _ table.Update) bool { return n == 1 }},
	} {
		for _, why := range []string{"cancel", "deadline"} {
			t.Run(name+" "+why, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o := &objects{}
					w := still(t, func(w *world) { o.Store = w.blob; w.blob = o })
					c.script(w)
					flow := c.flow
					if why == "deadline" {
						flow = strings.TrimSuffix(flow, "}") + `,"timeout_secs":60}`
					}
					w.register("f", flow)
					id := w.run("f").ID
					reconciler := w.hand("reconciler")
					var first seen
					stop := func() {
						if why == "cancel" {
							_, err := w.launch.Cancel(w.ctx, org, id)
							require.NoError(t, err)
						} else {
							time.Sleep(61 * time.Second)
						}
						require.NoError(t, reconciler.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
						if run := w.get(id); run.Archived {
							first = w.see(id)
						}
					}
					var n atomic.Int32
					var stopped atomic.Bool
					u := &unwritable{Table: w.plain, hook: func(u table.Update) {
						if finishes(u) {
							n.Add(1)
						}
						if c.stop != nil && !renews(u) && c.stop(int(n.Load()), u) && stopped.CompareAndSwap(false, true) {
							stop()
						}
					}}
					if c.object != "" {
						o.hook = func(key string) {
							if strings.Contains(key, c.object) && stopped.CompareAndSwap(false, true) {
								stop()
							}
						}
					}
					// Whether it can continue does not matter here.
					_ = w.hand("works", func(cfg *worker.Config) { cfg.Table = u }).Handle(w.ctx, message(events.RunStart, id, 0), 1)
					for at := 1; at <= 2 && c.flow == mapped && w.times("each") < 3; at++ {
						node := w.nodes(id)[fmt.Sprintf("each[%d]", at)]
						require.Nil(t, node)
						_ = w.hand("works", func(cfg *worker.Config) { cfg.Table = u }).Handle(w.ctx, message(events.RunTask, id, w.instance(id, at)), 1)
					}
					w.process("goes on")
					w.ticking()
					w.ends(id, 10*time.Minute)
					if first.run.ID == "" { // it waited for the propagation
						first = w.see(id)
					}
					want := engine.Cancelled
					if why == "deadline" {
						want = engine.TimedOut
					}
					if why == "deadline" && name == "before the end" {
						want = engine.Succeeded // only the write of its end is late
					}
					assert.Equal(t, want, first.run.Status)
					time.Sleep(20 * time.Minute)
					unchanged(t, first, w.see(id))
				})
			})
		}
	}
}

// instance returns the node of an instance of a run's first task.
func (w *world) instance(id string, index int) int {
	run := w.get(id)
	_, plan := w.plan(&run)
	return int(plan.Instance(0, index))
}

func handsOn(name string, bytes int) func(*world) {
	return func(w *world) {
		w.task(name, func(context.Context, *executor.Attempt) executor.Result {
			return ok(`"` + strings.Repeat("x", bytes) + `"`)
		})
	}
}

func failsOnce(name string) func(*world) {
	return func(w *world) {
		w.task(name, func(_ context.Context, a *executor.Attempt) executor.Result {
			if *a.MapIndex == 0 {
				return executor.Final(executor.TaskFailed, "no")
			}
			return ok("1")
		})
	}
}

// TestWaitingTaskEndsWithItsRun checks that a task that waits for its next
// attempt, or for its time, is CANCELLED when its run is cancelled, also after
// its message was received.
func TestWaitingTaskEndsWithItsRun(t *testing.T) {
	t.Parallel()
	for name, flow := range map[string]string{
		"retry": with(spec("a", "b: a"), map[string]map[string]any{"a": {"retries": 3, "retry_backoff": map[string]any{"delay_secs": 120}}}),
		"wait":  `{"tasks":[{"name":"a","type":"wait","config":{"seconds":120}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.task("a", func(context.Context, *executor.Attempt) executor.Result {
					return executor.Failed(executor.TaskFailed, "no")
				})
				w.register("f", flow)
				id := w.run("f").ID
				time.Sleep(10 * time.Second)
				_, err := w.launch.Cancel(w.ctx, org, id)
				require.NoError(t, err)
				w.ends(id, 10*time.Second)
				first := w.see(id)
				assert.Equal(t, engine.Cancelled, w.status(id, "a"))
				time.Sleep(20 * time.Minute)
				unchanged(t, first, w.see(id))
			})
		})
	}
}

// slow is a table whose writes take a while.
type slow struct {
	table.Table
	takes time.Duration
}

func (s slow) Update(ctx context.Context, u table.Update) (table.Item, error) {
	time.Sleep(s.takes)
	return s.Table.Update(ctx, u)
}

// TestCancelDuringWideRun cancels runs at different moments, in another
// process, while workers notify 90 tasks of the root's end and the join of
// theirs.
func TestCancelDuringWideRun(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{true, false} {
		for after := time.Millisecond; after < 120*time.Millisecond; after += 9 * time.Millisecond {
			t.Run(fmt.Sprint(fails, " ", after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.rt.Stop(w.ctx)
					cfg := w.c.Config
					cfg.Table, cfg.Log = slow{w.plain, time.Millisecond}, slog.New(slog.DiscardHandler)
					w.c = worker.New(cfg)
					w.serve()
					w.ticking()
					elsewhere := *w.launch
					elsewhere.Broker = &notify.Broker{}
					w.task("root", func(context.Context, *executor.Attempt) executor.Result {
						if fails {
							return executor.Final(executor.TaskFailed, "no")
						}
						return ok("1")
					})
					w.register("f", wideFlow())
					id := w.run("f").ID
					time.Sleep(after)
					if _, err := elsewhere.Cancel(w.ctx, org, id); err != nil {
						assert.True(t, w.get(id).Status.RunEnded(), "%v", err) // too late
					}
					for began := time.Now(); !w.get(id).Status.RunEnded(); time.Sleep(100 * time.Microsecond) {
						require.Less(t, time.Since(began), time.Minute)
					}
					first := w.see(id) // possibly before the propagation is complete
					time.Sleep(10 * time.Minute)
					unchanged(t, first, w.see(id))
					if first.run.Status == engine.Cancelled {
						assert.Zero(t, w.times("join"))
					}
				})
			})
		}
	}
}
