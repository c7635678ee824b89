package runs_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRetryFromFailedOfSucceededRunIsConflict(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	id := w.finish(t, "etl", nil).RunID
	for _, query := range []string{"", "?flow_version=1", "?flow_version=latest"} {
		w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry-from-failed"+query, nil).Require(t, 409)
	}
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry", nil).Require(t, 200)
}

// TestRetryFromFailedOnAnotherVersion checks that the corrected flow runs, and
// reuses what succeeded and is unchanged, wherever its tasks are in it.
func TestRetryFromFailedOnAnotherVersion(t *testing.T) {
	t.Parallel()
	w := online(t)
	side, calls := failing(t, 0)
	double := transform("double", "item * 2", after("extract"), object{"map_over": "[1, 2, 3]"})
	each := transform("each", "10 / item", after("extract"), object{"map_over": "[1, 0, 5]"})
	w.flow(t, "etl", "1", tasks(
		call("extract", side), double, transform("clean", "tasks.extract.output.status", after("extract")),
		each, transform("load", "1 / 0", after("clean", "double")),
		transform("other", "7"), transform("after_other", "tasks.other.output", after("other")),
	))
	source := w.finish(t, "etl", nil)
	require.Equal(t, "FAILED", source.Status)
	// Tasks are in another order, load is corrected, other has changed, and so its
	// dependent; double is read now, so its list, which was not stored, is
	// computed again.
	w.flow(t, "etl", "2", tasks(
		transform("new", "0", object{"map_over": "[0]"}),
		transform("other", "8"), transform("after_other", "tasks.other.output", after("other")),
		call("extract", side), transform("clean", "tasks.extract.output.status", after("extract")),
		transform("load", "tasks.clean.output + 1", after("clean", "double")), each, double,
		transform("sum", "tasks.double.output", after("double")),
	))
	w.flow(t, "etl", "3", tasks(
		transform("first", "0", object{"map_over": "[0, 1]"}), double, call("extract", side),
		transform("load", "1", after("double")),
	))
	for _, version := range []string{"2", "latest"} {
		res := w.Do(t, w.A.Key, "POST", "/runs/"+source.RunID+"/retry-from-failed?flow_version="+version, nil).Require(t, 200)
		assert.Equal(t, true, res.Get(t, "partial"))
		assert.Equal(t, source.RunID, res.Get(t, "parent_run_id"))
		d := w.ended(t, res.String(t, "run_id"))
		if version == "latest" {
			assert.Equal(t, "3", d.FlowVersion)
			assert.Equal(t, []string{"double", "extract"}, d.SkipTaskIDs)
			assert.Equal(t, []string{
				"first[0]#1 SUCCEEDED", "first[1]#1 SUCCEEDED", "double[0]#1 REUSED", "double[1]#1 REUSED", "double[2]#1 REUSED", "extract#1 REUSED", "load#1 SUCCEEDED",
			}, brief(d.TaskRuns))
			assert.Equal(t, json.Number("6"), d.TaskRuns[4].Output, "of the instance, which has another number here")
			assert.JSONEq(t, `[2,4,6]`, w.output(t, d.RunID, "/tasks/double/output", 200))
			assert.JSONEq(t, `4`, w.output(t, d.RunID, "/tasks/double/output?map_index=1", 200))
			continue
		}
		assert.Equal(t, "2", d.FlowVersion)
		assert.Equal(t, []string{"extract", "clean"}, d.SkipTaskIDs)
		assert.Equal(t, json.Number("7"), res.Get(t, "reused_task_count"), "with the instances")
		assert.Equal(t, []string{
			"new[0]#1 SUCCEEDED", "other#1 SUCCEEDED", "after_other#1 SUCCEEDED", "extract#1 REUSED", "clean#1 REUSED", "load#1 SUCCEEDED",
			"each[0]#1 REUSED", "each[1]#1 FAILED", "each[2]#1 REUSED", "double[0]#1 REUSED", "double[1]#1 REUSED", "double[2]#1 REUSED", "sum#1 SUCCEEDED",
		}, brief(d.TaskRuns))
		assert.Equal(t, json.Number("8"), d.TaskRuns[2].Output)
		assert.Equal(t, []any{json.Number("2"), json.Number("4"), json.Number("6")}, d.TaskRuns[12].Output)
		assert.JSONEq(t, `[10,null,2]`, w.output(t, d.RunID, "/tasks/each/output", 200))

		// A retry of the retry, with its own version and with another.
		second := w.Do(t, w.A.Key, "POST", "/runs/"+d.RunID+"/retry-from-failed", nil).Require(t, 200)
		assert.Equal(t, []any{"new", "other", "after_other", "extract", "clean", "load", "double", "sum"}, second.Get(t, "skip_task_ids"))
		third := w.Do(t, w.A.Key, "POST", "/runs/"+w.ended(t, second.String(t, "run_id")).RunID+"/retry-from-failed?flow_version=3", nil).Require(t, 200)
		last := w.ended(t, third.String(t, "run_id"))
		assert.Equal(t, "SUCCEEDED", last.Status)
		assert.Equal(t, []string{"double", "extract"}, last.SkipTaskIDs)
		assert.Equal(t, json.Number("4"), last.TaskRuns[3].Output)
	}
	assert.EqualValues(t, 1, calls.Load(), "what is reused never runs again")
}

func TestRetryFromFailedOnIncompatibleVersion(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", tasks(transform("a", "params.n / 0")))
	w.flow(t, "etl", "2", object{
		"parameters": object{"type": "object", "properties": object{"n": object{"type": "string"}, "m": object{"default": 5}}},
		"tasks":      []object{transform("a", "params.m")},
	})
	w.flow(t, "etl", "3", object{
		"parameters": object{"type": "object", "properties": object{"n": object{"type": "integer"}, "m": object{"default": 5}}, "additionalProperties": false},
		"tasks":      []object{transform("a", "params.m")},
	})
	id := w.finish(t, "etl", object{"n": 1}).RunID
	retry := "/runs/" + id + "/retry-from-failed?flow_version="
	w.Do(t, w.A.Key, "POST", retry+"none", nil).Require(t, 404)
	w.Do(t, w.A.Key, "POST", retry+"%2F", nil).Require(t, 422)
	res := w.Do(t, w.A.Key, "POST", retry+"2", nil).Require(t, 422)
	assert.Equal(t, []any{"body", "parameters", "n"}, res.Get(t, "detail", 0, "loc"))
	fits := w.Do(t, w.A.Key, "POST", retry+"3", nil).Require(t, 200)
	assert.Equal(t, false, fits.Get(t, "partial"), "nothing succeeded: a full retry")
	d := w.ended(t, fits.String(t, "run_id"))
	assert.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, json.Number("5"), d.TaskRuns[0].Output, "with the defaults of the new version")
}

// TestUnknownParametersAreRejected checks that a flow whose schema allows no
// additional parameters rejects them, and that the error suggests the closest
// name.
func TestUnknownParametersAreRejected(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string", "default": "today"}}, "additionalProperties": false},
		"tasks":      []object{transform("a", "params.day")},
	})
	res := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "parameters": object{"dya": "x"}}).Require(t, 422)
	assert.Equal(t, []any{"body", "parameters", "dya"}, res.Get(t, "detail", 0, "loc"))
	assert.Equal(t, "extra_forbidden", res.Get(t, "detail", 0, "type"))
	w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "parameters": object{"day": "x"}}).Require(t, 200)
}
