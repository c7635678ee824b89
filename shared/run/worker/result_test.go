package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// TestResultIsStoredWhenRunSucceeds checks a small result in the table, a large
// one as an object, and the error of one without a value, which does not fail
// the run.
func TestResultIsStoredWhenRunSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("a", func(context.Context, *executor.Attempt) executor.Result {
			return ok(`"` + strings.Repeat("x", runstate.MaxInline) + `"`)
		})
		w.task("b", func(context.Context, *executor.Attempt) executor.Result { return ok("1") })
		w.task("c", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Result{Output: executor.Value{Ref: org + "/runs/gone.json", Size: runstate.MaxInline + 1}}
		})
		for name, c := range map[string]struct {
			result any
			check  func(*runstate.Result)
		}{
			"small": {"tasks.b.output + 1", func(r *runstate.Result) { assert.Equal(t, "2", r.Output) }},
			"whole": {"${{ tasks.a.output }}", func(r *runstate.Result) {
				assert.EqualValues(t, runstate.MaxInline+2, r.OutputSize)
				assert.Contains(t, r.OutputRef, "/out/", "it is not copied")
			}},
			"large": {map[string]any{"a": "${{ tasks.a.output }}"}, func(r *runstate.Result) {
				assert.EqualValues(t, runstate.MaxInline+8, r.OutputSize)
				assert.Contains(t, r.OutputRef, "/result.json")
			}},
			"gone": {"size(tasks.c.output)", func(r *runstate.Result) { assert.Contains(t, r.Error, "gone from the object store") }},
			"bad":  {"tasks.b.output.x", func(r *runstate.Result) { assert.NotEmpty(t, r.Error) }},
		} {
			var doc map[string]any
			require.NoError(t, json.Unmarshal([]byte(spec("a", "b", "c: a b")), &doc))
			doc["result"] = c.result
			raw, err := json.Marshal(doc)
			require.NoError(t, err)
			w.register(name, string(raw))
			run := w.wait(w.run(name).ID)
			assert.Equal(t, engine.Succeeded, run.Status, name)
			kept, err := runstate.LoadResult(w.ctx, w.table, org, run.ID)
			require.NoError(t, err)
			require.NotNil(t, kept, name)
			c.check(kept)
		}
	})
}
