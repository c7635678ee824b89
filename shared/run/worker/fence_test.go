package worker_test

import (
	"context"
	"strings"
	"sync"
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

// TestInlineTaskSeesFence cancels a run while a worker is between two of its
// tasks: the next one, for which there is no message, does not begin.
func TestInlineTaskSeesFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		elsewhere := *w.launch // another process, whose cancel the worker is not notified of
		elsewhere.Broker = &notify.Broker{}
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
			_, err := elsewhere.Cancel(w.ctx, org, a.RunID)
			require.NoError(t, err)
			return ok("1") // it had finished by then
		})
		w.register("f", spec("a", "b: a", "c: b"))
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.Cancelled, run.Status)
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "a"))
		assert.Zero(t, w.times("b"))
		assert.Zero(t, w.times("c"))
	})
}

// readOnce is a table that calls a hook after the first read of an item.
type readOnce struct {
	table.Table
	key  table.Key
	once sync.Once
	hook func()
}

func (r *readOnce) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	item, err := r.Table.Get(ctx, key, opts...)
	if key == r.key {
		r.once.Do(r.hook)
	}
	return item, err
}

// TestCancelDuringStart cancels a run when a worker has read that it is to
// start: it does not start.
func TestCancelDuringStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", spec("a"))
		id := w.run("f").ID
		r := &readOnce{Table: w.table, key: runstate.RunKey(org, id), hook: func() {
			_, err := w.launch.Cancel(w.ctx, org, id)
			require.NoError(t, err)
		}}
		err := w.hand("h", func(cfg *worker.Config) { cfg.Table = r }).Handle(w.ctx, message(events.RunStart, id, 0), 1)
		require.NoError(t, err)
		run := w.get(id)
		assert.Equal(t, engine.Cancelled, run.Status)
		assert.Zero(t, run.StartedAt)
		assert.Zero(t, w.times("a"))
	})
}

// TestEndDuringCancel lets a run end when a cancel has read that it runs: its
// status stays, and the cancel leaves no audit entry.
func TestEndDuringCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", spec("a"))
		id := w.run("f").ID
		canceller := *w.launch
		canceller.Table = &readOnce{Table: w.table, key: runstate.RunKey(org, id), hook: func() {
			err := w.hand("h").Handle(w.ctx, message(events.RunStart, id, 0), 1)
			require.NoError(t, err)
		}}
		_, err := canceller.Cancel(w.ctx, org, id)
		require.Error(t, err)
		run := w.get(id)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Empty(t, run.Fence)
	})
}

// TestStopSurvivesFailedWrites lets the writes fail for a while that end the
// attempt of a run that was cancelled, or exceeded its deadline. The attempt is
// not lost.
func TestStopSurvivesFailedWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails func(table.Update) bool
		want  engine.Status
	}{
		"cancel":   {finishes, engine.Cancelled},
		"deadline": {func(u table.Update) bool { return sets(u, runstate.RunFence) != "" }, engine.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				fails := &firstFail{left: 4}
				w.task("a", func(ctx context.Context, _ *executor.Attempt) executor.Result {
					<-ctx.Done()
					return executor.Failed(executor.TaskFailed, "stopped")
				})
				w.register("f", limited(spec("a"), 60))
				id := w.run("f").ID
				one := w.hand("one", func(cfg *worker.Config) {
					cfg.Table = &unwritable{Table: w.plain, fails: func(_ context.Context, u table.Update) error {
						if c.fails(u) {
							return fails.err()
						}
						return nil
					}}
				})
				worked := make(chan error, 1)
				go func() { worked <- one.Handle(w.ctx, message(events.RunStart, id, 0), 1) }()
				time.Sleep(time.Second)
				if c.want == engine.Cancelled {
					_, err := w.launch.Cancel(w.ctx, org, id)
					require.NoError(t, err)
				}
				require.NoError(t, <-worked)
				assert.Equal(t, engine.Cancelled, w.status(id, "a"))
				assert.Equal(t, c.want, w.get(id).Status)
				assert.Zero(t, fails.left)
			})
		})
	}
}

// TestDeadlineIsFinal checks that a run is TIMED_OUT after a reconciliation
// found that it exceeded its deadline, even if its last task succeeds before it
// sees that.
func TestDeadlineIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		for name, takes := range map[string]time.Duration{"a": 2 * time.Second, "b": 59500 * time.Millisecond} {
			w.task(name, func(context.Context, *executor.Attempt) executor.Result {
				time.Sleep(takes)
				return ok("1")
			})
		}
		w.register("f", strings.TrimSuffix(spec("a", "b: a"), "}")+`,"timeout_secs":60}`)
		id := w.run("f").ID
		worked := make(chan error)
		go func() {
			err := w.hand("worker").Handle(w.ctx, message(events.RunStart, id, 0), 1)
			worked <- err
		}()
		synctest.Wait()
		w.c = w.hand("other").Worker // reconciles without notifying the worker
		w.serve()
		require.NoError(t, <-worked)
		assert.Equal(t, engine.TimedOut, w.wait(id).Status)
		assert.Equal(t, engine.Succeeded, w.status(id, "b"), "it was not stopped")
	})
}
