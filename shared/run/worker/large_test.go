package worker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// TestListTooLargeFailsMap maps to outputs that are too large together: the map
// fails with that error, and the run ends. If nothing reads them the map
// succeeds.
func TestListTooLargeFailsMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("each", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Result{Output: executor.Value{Ref: "half", Size: worker.MaxOutput / 2}}
		})
		each := `{"name":"each","type":"python","entrypoint":"m:f","map_over":"[1, 2]"}`
		w.register("unread", `{"tasks":[`+each+`]}`)
		assert.Equal(t, engine.Succeeded, w.wait(w.run("unread").ID).Status)

		w.register("read", `{"tasks":[`+each+`,{"name":"after","type":"python","entrypoint":"m:f","depends_on":["each"]}]}`)
		run := w.wait(w.run("read").ID)
		assert.Equal(t, engine.Failed, run.Status)
		assert.Equal(t, "1 of 2 tasks failed: each (ArtifactSerializationError: its outputs have 268435459 bytes as a list, at most 268435456 are handed on)", run.Error)
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "each[1]"))
		assert.Equal(t, engine.UpstreamFailed, w.status(run.ID, "after"))
		assert.Zero(t, w.times("after"))
	})
}
