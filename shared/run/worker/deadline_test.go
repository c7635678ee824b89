package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// limited returns a flow_spec with a timeout for the whole run.
func limited(flow string, secs int) string {
	return fmt.Sprintf(`%s,"timeout_secs":%d}`, strings.TrimSuffix(flow, "}"), secs)
}

// TestRunFinishedInTimeIsNotTimedOut checks that a run succeeds if all tasks
// succeeded before the deadline but the end of the run could only be written
// after it.
func TestRunFinishedInTimeIsNotTimedOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result executor.Result
		want   engine.Status
	}{"succeeded": {ok("1"), engine.Succeeded}, "failed": {executor.Final(executor.TaskFailed, "as written"), engine.Failed}} {
		for _, takes := range []time.Duration{0, 55 * time.Second} {
			t.Run(fmt.Sprint(name, " ", takes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					calm := time.Now().Add(75 * time.Second)
					w := newWorld(t, func(w *world) {
						w.wrap = func(inner table.Table) table.Table {
							return &unwritable{Table: inner, fails: func(_ context.Context, u table.Update) error {
								if u.Key.SK == "run" && sets(u, runstate.RunEnded) != "" {
									return until(calm, errFault)
								}
								return nil
							}}
						}
					})
					w.ticking()
					w.lasting("a", takes)
					w.task("b", func(context.Context, *executor.Attempt) executor.Result { return c.result })
					w.register("f", limited(spec("a", "b: a"), 60))
					run := w.ends(w.run("f").ID, 5*time.Minute)
					assert.Equal(t, c.want, run.Status)
					assert.NotContains(t, run.Error, "timeout_secs")
				})
			})
		}
	}
}

// TestDeadlineOfFastClock checks that a worker whose clock is 5 s ahead ends
// the run as TIMED_OUT with that error.
func TestDeadlineOfFastClock(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"claims": 56 * time.Second, "runs": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				w.lasting("a", at)
				w.lasting("b", 10*time.Minute)
				w.register("f", limited(with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 100}, "b": {"timeout_secs": 840}}), 60))
				id := w.run("f").ID
				ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute) // too short for b, which is sent to the queue
				defer cancel()
				require.NoError(t, w.hand("one").Handle(ctx, message(events.RunStart, id, 0), 1))
				require.Equal(t, engine.Succeeded, w.status(id, "a"))
				ahead := w.hand("ahead", func(cfg *worker.Config) {
					cfg.Clock = clock.Func(func() time.Time { return time.Now().Add(5 * time.Second) })
				})
				require.NoError(t, ahead.Handle(w.ctx, message(events.RunTask, id, 1), 1))
				require.NoError(t, w.hand("reconciler").Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
				w.process("rest")
				w.ticking()
				run := w.ends(id, 3*time.Minute)
				assert.Equal(t, engine.TimedOut, run.Status)
				assert.Contains(t, run.Error, "timeout_secs (60)")
				assert.NotContains(t, run.Error, "840")
			})
		})
	}
}

// TestClaimDuringDeadline claims a task, by a worker whose clock is behind,
// between the moment when another worker has read the run's tasks and the one
// when it ends the run at its deadline. The run does not end while the task
// runs.
func TestClaimDuringDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		const takes = 2 * time.Second
		w.lasting("a", 10*time.Second)
		w.lasting("b", takes)
		w.register("f", limited(with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 30}, "b": {"timeout_secs": 840}}), 60))
		id := w.run("f").ID
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute) // too short for b, which is sent to the queue
		defer cancel()
		require.NoError(t, w.hand("one").Handle(ctx, message(events.RunStart, id, 0), 1))
		require.Equal(t, engine.Succeeded, w.status(id, "a"))
		time.Sleep(51 * time.Second)
		behind := w.hand("behind", func(cfg *worker.Config) {
			cfg.Clock = clock.Func(func() time.Time { return time.Now().Add(-5 * time.Second) })
		})
		worked := make(chan error, 1)
		reconciler := w.hand("reconciler", func(cfg *worker.Config) {
			cfg.Table = &unwritable{Table: w.plain, fails: func(_ context.Context, u table.Update) error {
				if sets(u, runstate.RunFence) != "" {
					go func() { worked <- behind.Handle(w.ctx, message(events.RunTask, id, 1), 1) }()
					time.Sleep(takes / 2)
				}
				return nil
			}}
		})
		require.NoError(t, reconciler.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
		assert.Equal(t, engine.Running, w.status(id, "b"))
		assert.Equal(t, engine.Running, w.get(id).Status, "b runs")
		require.NoError(t, <-worked)
		w.process("rest")
		w.ticking()
		run := w.ends(id, 3*time.Minute)
		assert.Equal(t, engine.TimedOut, run.Status)
	})
}

// TestErrorOfTaskCutByDeadlineNamesRun checks the error of a task that the
// run's timeout ended before its own, whether its worker notices or a
// reconciliation.
func TestErrorOfTaskCutByDeadlineNamesRun(t *testing.T) {
	t.Parallel()
	for name, execute := range map[string]func(context.Context, *executor.Attempt) executor.Result{
		"heeds its context": func(ctx context.Context, _ *executor.Attempt) executor.Result {
			<-ctx.Done()
			return ok("1")
		},
		"watches its time": func(ctx context.Context, a *executor.Attempt) executor.Result {
			select {
			case <-ctx.Done():
			case <-time.After(a.Timeout):
			}
			return executor.Result{Failure: &executor.Failure{Type: executor.TaskTimeout, Message: "out of time", TimedOut: true}}
		},
	} {
		for _, secs := range []int{31, 60, 61, 62, 64} { // heartbeats are every 5 s
			t.Run(fmt.Sprint(name, " ", secs), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := still(t)
					w.ticking()
					var took time.Duration
					w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
						began := time.Now()
						defer func() { took = time.Since(began) }()
						return execute(ctx, a)
					})
					w.register("f", limited(with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 600}}), secs))
					id := w.run("f").ID
					_ = w.hand("works").Handle(w.ctx, message(events.RunStart, id, 0), 1)
					w.process("reconciler")
					run := w.ends(id, 5*time.Minute)
					assert.Equal(t, engine.TimedOut, run.Status)
					assert.Contains(t, run.Error, fmt.Sprintf("timeout_secs (%d)", secs))
					assert.InDelta(t, secs, took.Seconds(), 5)
					assert.NotContains(t, w.nodes(id)["a"].Error, "600")
					assert.Equal(t, 1, w.times("a"))
					assert.Zero(t, w.times("b"))
				})
			})
		}
	}
}

// TestExecutorIgnoringContext checks that the run of an executor that does not
// stop ends within a minute of when it should, and that its worker is free for
// others.
func TestExecutorIgnoringContext(t *testing.T) {
	t.Parallel()
	// As many as there are workers.
	stuck := with(spec("stuck", "after: stuck"), map[string]map[string]any{"stuck": {"map_over": "lists.range(16)"}})
	for name, c := range map[string]struct {
		flow string
		at   time.Duration // when it should end
		want engine.Status
	}{
		"cancel":   {stuck, 40 * time.Second, engine.Cancelled},
		"deadline": {limited(stuck, 50), 50 * time.Second, engine.TimedOut},
		"timeout":  {with(stuck, map[string]map[string]any{"stuck": {"timeout_secs": 45}}), 45 * time.Second, engine.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.ticking()
				never := make(chan struct{})
				w.t.Cleanup(func() { close(never) })
				w.task("stuck", func(context.Context, *executor.Attempt) executor.Result {
					<-never
					return ok("1")
				})
				w.register("f", c.flow)
				id := w.run("f").ID
				time.Sleep(c.at)
				if name == "cancel" {
					_, err := w.launch.Cancel(w.ctx, org, id)
					require.NoError(t, err)
				}
				run := w.ends(id, time.Minute)
				assert.Equal(t, c.want, run.Status)
				for index := range 16 {
					assert.True(t, w.status(id, fmt.Sprintf("stuck[%d]", index)).Terminal())
				}
				assert.Equal(t, 16, w.times("stuck"))
				assert.Zero(t, w.times("after"))
				first := w.see(id)
				time.Sleep(10 * time.Minute)
				unchanged(t, first, w.see(id))
				w.register("g", spec("other"))
				assert.Equal(t, engine.Succeeded, w.ends(w.run("g").ID, 10*time.Second).Status)
			})
		})
	}
}
