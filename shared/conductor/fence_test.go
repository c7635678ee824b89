package conductor_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/signal"
)

// TestAWorkerThatGoesOnSeesTheFence cancels a run while a worker is between two
// of its tasks: the next, which no message brings, does not begin.
func TestAWorkerThatGoesOnSeesTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		elsewhere := *w.launch // another process, of which the worker learns nothing by itself
		elsewhere.Hub = &signal.Hub{}
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
			_, err := elsewhere.Cancel(w.ctx, org, a.RunID)
			require.NoError(t, err)
			return ok("1") // it was done by the time
		})
		w.register("f", spec("a", "b: a", "c: b"))
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.Cancelled, run.Status)
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "a"))
		assert.Zero(t, w.times("b"))
		assert.Zero(t, w.times("c"))
	})
}
