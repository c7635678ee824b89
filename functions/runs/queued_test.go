package runs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// TestQueuedAndRunning checks that a record has the time that its attempt
// waited until its own code began, and is QUEUED until then, even after a
// worker claimed it.
func TestQueuedAndRunning(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", tasks(
		transform("b", "1", after("a"), object{"retries": 2, "retry_backoff": object{"delay_secs": 3}}), transform("a", "1"),
		transform("each", "item", object{"map_over": "[1, 2]"}), transform("starts", "1"), transform("skipped", "1"), transform("waits", "1", after("starts")),
	))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	began := clock.ToMillis(time.Now().Add(-time.Hour))
	w.become(t, id, engine.Running, table.Set(runstate.RunStarted, int64(began)))
	at := func(seconds int) clock.Millis { return began + clock.Millis(1000*seconds) }
	width := 2
	w.node(t, id, 0, runstate.Node{
		Status: engine.Failed, Attempt: 3, StartedAt: at(30), EndedAt: at(31), ErrorType: "TaskFailedError", Error: "ConnectionError: no route",
		Exception: "ConnectionError", Traceback: "Traceback: …",
		History: []runstate.Attempt{
			{Attempt: 1, Status: engine.Failed, StartedAt: at(12), EndedAt: at(13), Exception: "KeyError", Traceback: "first"},
			{Attempt: 2, Status: engine.Failed, StartedAt: at(17), EndedAt: at(20), ErrorType: "WorkerLostError"},
		},
	})
	w.node(t, id, 1, runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: at(2), EndedAt: at(10), Output: "1"})
	w.node(t, id, 2, runstate.Node{Status: engine.Running, Attempt: 1, StartedAt: at(5), Width: &width})
	w.node(t, id, 3, runstate.Node{Status: engine.Running, Attempt: 1, Nonce: "x", Reason: "It waits until its interpreter has started."})
	w.node(t, id, 4, runstate.Node{Status: engine.Skipped, EndedAt: at(1)})
	plan := engine.NewPlan([]engine.TaskDef{{Deps: []int{1}}, {}, {Mapped: true}, {}, {}, {Deps: []int{3}}})
	w.node(t, id, int(plan.Instance(2, 0)), runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: at(9), EndedAt: at(10), Output: "1"})

	d := w.get(t, id)
	require.Equal(t, []string{
		"b#1 FAILED", "b#2 FAILED", "b#3 FAILED", "a#1 SUCCEEDED", "each[0]#1 SUCCEEDED", "each[1]#1 QUEUED", "starts#1 QUEUED", "skipped#1 SKIPPED", "waits#1 PENDING",
	}, brief(d.TaskRuns))
	queued := func(i int) int64 {
		require.NotNil(t, d.TaskRuns[i].QueuedMS, d.TaskRuns[i].TaskName)
		return *d.TaskRuns[i].QueuedMS
	}
	assert.EqualValues(t, 2000, queued(0), "since what it depends on had ended")
	assert.EqualValues(t, 1000, queued(1), "since the delay of its retry was over")
	assert.EqualValues(t, 10_000, queued(2), "a lost attempt has no delay")
	assert.EqualValues(t, 2000, queued(3), "since the run began")
	assert.EqualValues(t, 4000, queued(4), "since its list was evaluated")
	for _, i := range []int{5, 6} {
		assert.Greater(t, queued(i), int64(3_000_000), "until now")
		assert.NotNil(t, d.TaskRuns[i].Reason)
		assert.Nil(t, d.TaskRuns[i].StartedAt)
		assert.Nil(t, d.TaskRuns[i].DurationMS)
	}
	for _, i := range []int{7, 8} {
		assert.Nil(t, d.TaskRuns[i].QueuedMS, d.TaskRuns[i].TaskName)
	}
	assert.Equal(t, []any{"KeyError", "first", nil, "ConnectionError", "Traceback: …"}, texts(
		d.TaskRuns[0].Exception, d.TaskRuns[0].Traceback, d.TaskRuns[1].Exception, d.TaskRuns[2].Exception, d.TaskRuns[2].Traceback))
	var raw struct {
		Tasks []map[string]any `json:"task_runs"`
	}
	require.NoError(t, json.Unmarshal(w.Do(t, w.A.Key, "GET", "/runs/"+id, nil).Require(t, 200).Body, &raw))
	assert.Contains(t, raw.Tasks[3], "exception", "null where there is none")
}

// texts returns what pointers point to, nil for none.
func texts(pointers ...*string) []any {
	out := make([]any, len(pointers))
	for i, p := range pointers {
		if p != nil {
			out[i] = *p
		}
	}
	return out
}
