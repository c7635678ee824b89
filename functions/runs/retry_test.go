package runs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	w := online(t)
	url, calls := failing(t, 1)
	w.flow(t, "etl", "1", tasks(transform("a", "params.x"), call("b", url, after("a"))))
	w.flow(t, "etl", "2", chain)
	w.Environments(t, w.A, "staging")
	first := w.Do(t, w.A.Key, "POST", "/runs", object{
		"flow_name": "etl", "flow_version": "1", "environment": "staging", "execution_mode": "small", "parameters": object{"x": 7}, "execute": true,
	}).Require(t, 200)
	require.Equal(t, "FAILED", first.String(t, "status"))
	id := first.String(t, "run_id")
	before := w.AuditCount(t, w.A.OrgID)

	res := w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry", "{}").Require(t, 200)
	assert.ElementsMatch(t, []string{
		"run_id", "run_slug", "flow_name", "flow_version", "deployment", "environment", "execution_mode", "trigger_source", "status", "created_at",
		"parent_run_id", "partial", "reused_task_count", "skip_task_ids",
	}, keysOf(res.Object(t)))
	assert.Equal(t, id, res.String(t, "parent_run_id"))
	assert.Equal(t, "1", res.String(t, "flow_version"))
	assert.Equal(t, "staging", res.String(t, "environment"))
	assert.Equal(t, "small", res.String(t, "execution_mode"))
	assert.Equal(t, "QUEUED", res.String(t, "status"))
	assert.Equal(t, false, res.Get(t, "partial"))
	assert.Equal(t, json.Number("0"), res.Get(t, "reused_task_count"))
	assert.Equal(t, []any{}, res.Get(t, "skip_task_ids"))
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	assert.Contains(t, w.audited(t, res.String(t, "run_id"), "retry").Metadata, id)

	d := w.ended(t, res.String(t, "run_id"))
	assert.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, map[string]any{"x": json.Number("7")}, d.Parameters)
	assert.Equal(t, []string{"a#1 SUCCEEDED", "b#1 SUCCEEDED"}, brief(d.TaskRuns), "everything ran again")
	assert.Equal(t, id, *d.ParentRunID)
	assert.False(t, *d.Partial)
	assert.Equal(t, []string{}, d.SkipTaskIDs)
	assert.EqualValues(t, 2, calls.Load())
}

func TestRetryFromFailed(t *testing.T) {
	t.Parallel()
	w := online(t)
	url, calls := failing(t, 2)
	side, sideCalls := failing(t, 0)
	w.flow(t, "etl", "1", tasks(
		call("effect", side), transform("list", "[1, 2]"),
		transform("each", "item * 2", after("list"), object{"map_over": "tasks.list.output"}),
		call("boom", url, after("effect", "each")),
		transform("sum", "tasks.each.output", after("boom", "each")),
	))
	d := w.finish(t, "etl", nil)
	require.Equal(t, "FAILED", d.Status)
	for round, last := range []string{"FAILED", "SUCCEEDED"} { // a retry of a retry reuses the results of the first run
		before := w.AuditCount(t, w.A.OrgID)
		res := w.Do(t, w.A.Key, "POST", "/runs/"+d.RunID+"/retry-from-failed", nil).Require(t, 200)
		assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
		assert.Equal(t, d.RunID, res.String(t, "parent_run_id"))
		assert.Equal(t, true, res.Get(t, "partial"))
		assert.Equal(t, json.Number("3"), res.Get(t, "reused_task_count"))
		assert.Equal(t, []any{"effect", "list", "each"}, res.Get(t, "skip_task_ids"))
		d = w.ended(t, res.String(t, "run_id"))
		sum := "SUCCEEDED"
		if last == "FAILED" {
			sum = "UPSTREAM_FAILED"
		}
		assert.Equal(t, []string{
			"effect#1 REUSED", "list#1 REUSED", "each[0]#1 REUSED", "each[1]#1 REUSED", "boom#1 " + last, "sum#1 " + sum,
		}, brief(d.TaskRuns), "round %d", round)
		assert.Equal(t, json.Number("4"), d.TaskRuns[3].Output, "round %d", round)
		assert.Equal(t, []string{"effect", "list", "each"}, d.SkipTaskIDs)
		assert.Equal(t, 3, *d.ReusedTaskCount)
		assert.True(t, *d.Partial)
	}
	assert.Equal(t, []any{json.Number("2"), json.Number("4")}, d.TaskRuns[5].Output)
	assert.EqualValues(t, 1, sideCalls.Load(), "a reused task never runs again")
	assert.EqualValues(t, 3, calls.Load())
}

func TestRetryFromFailedWithoutSuccessRunsAll(t *testing.T) {
	t.Parallel()
	w := online(t)
	url, _ := failing(t, 1)
	w.flow(t, "etl", "1", tasks(call("boom", url), transform("b", "1", after("boom"))))
	id := w.finish(t, "etl", nil).RunID
	res := w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry-from-failed", nil).Require(t, 200)
	assert.Equal(t, false, res.Get(t, "partial"))
	assert.Equal(t, json.Number("0"), res.Get(t, "reused_task_count"))
	assert.Equal(t, []any{}, res.Get(t, "skip_task_ids"))
	assert.Equal(t, []string{"boom#1 SUCCEEDED", "b#1 SUCCEEDED"}, brief(w.ended(t, res.String(t, "run_id")).TaskRuns))
}

func TestInstancesAreReusedIndividually(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", tasks(transform("each", "10 / item", object{"map_over": "[1, 0, 5]"})))
	d := w.finish(t, "etl", nil)
	require.Equal(t, "FAILED", d.Status)
	require.Equal(t, []string{"each[0]#1 SUCCEEDED", "each[1]#1 FAILED", "each[2]#1 SUCCEEDED"}, brief(d.TaskRuns))
	res := w.Do(t, w.A.Key, "POST", "/runs/"+d.RunID+"/retry-from-failed", nil).Require(t, 200)
	assert.Equal(t, true, res.Get(t, "partial"))
	assert.Equal(t, json.Number("2"), res.Get(t, "reused_task_count"))
	assert.Equal(t, []any{}, res.Get(t, "skip_task_ids"), "no task is skipped as a whole")
	d = w.ended(t, res.String(t, "run_id"))
	assert.Equal(t, []string{"each[0]#1 REUSED", "each[1]#1 FAILED", "each[2]#1 REUSED"}, brief(d.TaskRuns))
	assert.Equal(t, json.Number("2"), d.TaskRuns[2].Output)
}

func TestRetryOfFlowRegisteredAgain(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	id := w.finish(t, "etl", nil).RunID
	w.Do(t, w.A.Key, "DELETE", "/flows/etl", nil).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry", nil).Require(t, 404)
	assert.Len(t, w.get(t, id).TaskRuns, 2, "a run keeps its history")
	w.flow(t, "etl", "1", tasks(transform("other", "1")))
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry", nil).Require(t, 409)
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry-from-failed", nil).Require(t, 409)
}

// TestPlanVersions checks that a run keeps the numbers of its nodes, and that
// reused nodes have the source's.
func TestPlanVersions(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", tasks(transform("a", "1"), transform("b", "1", after("a"))))
	record := func(id string) runstate.Run {
		run, err := runstate.GetRun(t.Context(), w.Deps.Table, w.A.OrgID, id, time.Now())
		require.NoError(t, err)
		return run
	}
	retry := func(id, how string) runstate.Run {
		return record(w.Do(t, w.A.Key, "POST", "/runs/"+id+how, nil).Require(t, 200).String(t, "run_id"))
	}
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	assert.Equal(t, engine.PlanVersion, record(id).Plan)

	w.node(t, id, 0, runstate.Node{Status: engine.Succeeded, Attempt: 1, Output: "1"})
	w.become(t, id, engine.Failed, table.Remove("pv")) // accepted before plans had versions
	assert.Len(t, w.get(t, id).TaskRuns, 2)
	partial := retry(id, "/retry-from-failed")
	assert.True(t, partial.Partial)
	assert.Zero(t, partial.Plan, "the source's own")
	assert.Equal(t, engine.PlanVersion, retry(id, "/retry").Plan, "which reuses nothing")

	w.become(t, id, engine.Failed, table.Set("pv", engine.PlanVersion+1)) // accepted by a newer service
	w.Do(t, w.A.Key, "GET", "/runs/"+id, nil).Require(t, 500)
	w.Do(t, w.A.Key, "GET", "/runs/compare?run_a="+id+"&run_b="+partial.ID, nil).Require(t, 500)
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry-from-failed", nil).Require(t, 500)
}
