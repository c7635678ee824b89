package worker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
)

// TestRetryOfExpiredResultsFails starts a retry only when the results that it is
// to reuse have expired: it ends at once and says so, and runs no task that its
// user was told would not run. A retry of the retry runs it.
func TestRetryOfExpiredResultsFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone  []string                 // what has expired of the source
		ends  engine.Status            // of the retry
		tasks map[string]engine.Status // of the retry
		a     int                      // how often a ran, in the end
		each  int                      // how often instances ran, in the end
	}{
		"nothing": {nil, engine.Succeeded, map[string]engine.Status{"a": engine.Reused, "each[0]": engine.Reused, "last": engine.Succeeded}, 1, 3},
		"a task": {[]string{"a"}, engine.Failed,
			map[string]engine.Status{"a": engine.Failed, "side": engine.Reused, "each": engine.UpstreamFailed, "last": engine.UpstreamFailed}, 2, 4},
		"an instance": {[]string{"each[0]"}, engine.Failed,
			map[string]engine.Status{"a": engine.Reused, "each[0]": engine.Failed, "each[1]": engine.Succeeded, "each": engine.Failed, "last": engine.UpstreamFailed}, 1, 4},
		// Whether its list is the same cannot be told any more.
		"a map": {[]string{"each"}, engine.Succeeded, map[string]engine.Status{"each[0]": engine.Succeeded, "last": engine.Succeeded}, 1, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.task("a", func(context.Context, *executor.Attempt) executor.Result { return ok(`[1,2]`) })
			broken := true
			w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
				if broken && *a.MapIndex == 1 {
					return executor.Failed(executor.TaskFailed, "no")
				}
				return ok(string(a.Item))
			})
			w.register("f", with(spec("a", "each: a", "last: each", "side"), map[string]map[string]any{"each": {"map_over": "tasks.a.output"}}))
			source := w.wait(w.run("f").ID)
			require.Equal(t, engine.Failed, source.Status)
			w.rt.Stop(w.ctx)
			broken = false
			again, err := w.launch.Retry(w.ctx, org, source.ID, true)
			require.NoError(t, err)
			for _, task := range c.gone {
				require.NoError(t, w.plain.Delete(w.ctx, table.Delete{Key: w.nodes(source.ID)[task].Key}), name)
			}
			w.serve()
			run := w.wait(again.Run.ID)
			assert.Equal(t, c.ends, run.Status, name)
			for task, want := range c.tasks {
				assert.Equal(t, want, w.status(run.ID, task), "%s: %s", name, task)
			}
			if c.ends == engine.Failed {
				item := w.nodes(run.ID)[c.gone[0]]
				assert.Equal(t, executor.StorageFailed, item.ErrorType)
				assert.Equal(t, "What it was to reuse of run "+source.ID+" has expired. A retry of this run runs it.", item.Error)
				assert.Contains(t, run.Error, item.Error)
				assert.Contains(t, w.archived(run.ID), c.gone[0]+" task_failed")
				again, err := w.launch.Retry(w.ctx, org, run.ID, true)
				require.NoError(t, err)
				run = w.wait(again.Run.ID)
			}
			assert.Equal(t, engine.Succeeded, run.Status, name)
			assert.Equal(t, []int{c.a, c.each, 1}, []int{w.times("a"), w.times("each"), w.times("side")}, name)
		})
	}
}
