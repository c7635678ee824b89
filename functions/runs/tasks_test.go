package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// online returns a live world whose http tasks may call the test's own servers.
func online(t *testing.T) world {
	t.Helper()
	w := idle(t, localtest.Options{Config: fn.Config{LongLived: true, AllowLoopback: true}})
	w.work(t)
	return w
}

// failing responds with 500 to the first n calls, then with 200, and counts
// calls.
func failing(t *testing.T, n int32) (url string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) <= n {
			rw.WriteHeader(500)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func call(name, url string, more ...object) object {
	task := object{"name": name, "type": "http", "config": object{"method": "GET", "url": url}}
	for _, m := range more {
		for k, v := range m {
			task[k] = v
		}
	}
	return task
}

func TestRunDetail(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", tasks(
		transform("late", "tasks.each.output", after("each")), // defined before its dependency
		transform("each", "item * 10", after("list"), object{"map_over": "tasks.list.output"}),
		transform("list", "[1, 2, 3]"),
		transform("none", "1", object{"map_over": "[]"}),
	))
	d := w.finish(t, "etl", object{"p": 1})
	require.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, map[string]any{"p": json.Number("1")}, d.Parameters)
	assert.Contains(t, *d.TriggeredBy, "api-key:")
	assert.Nil(t, d.ErrorMessage)
	assert.Nil(t, d.Reason)
	assert.Nil(t, d.ParentRunID)
	for _, at := range []*string{d.StartedAt, d.EndedAt} {
		require.NotNil(t, at)
		assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, *at)
	}
	assert.GreaterOrEqual(t, *d.DurationMS, int64(0))
	assert.Equal(t, []string{
		"late#1 SUCCEEDED", "each[0]#1 SUCCEEDED", "each[1]#1 SUCCEEDED", "each[2]#1 SUCCEEDED", "list#1 SUCCEEDED", "none#1 SUCCEEDED",
	}, brief(d.TaskRuns), "the flow's order; no record of the map as a whole")
	assert.Equal(t, []any{json.Number("10"), json.Number("20"), json.Number("30")}, d.TaskRuns[0].Output)
	assert.Equal(t, json.Number("20"), d.TaskRuns[2].Output)
	assert.Equal(t, []any{}, d.TaskRuns[5].Output, "an empty map has one record")
	seen := map[string]bool{}
	for _, task := range d.TaskRuns {
		assert.False(t, seen[task.TaskRunID])
		seen[task.TaskRunID] = true
		assert.True(t, strings.HasPrefix(task.TaskRunID, d.RunID))
		assert.Equal(t, "transform", task.Executor)
		assert.NotNil(t, task.StartedAt)
		assert.NotNil(t, task.EndedAt)
		assert.NotNil(t, task.DurationMS)
	}
}

func TestDetailOfFailedRun(t *testing.T) {
	t.Parallel()
	w := online(t)
	url, calls := failing(t, 9)
	w.flow(t, "bad", "1", object{
		"tasks": []object{
			transform("first", "1"),
			call("boom", url, object{"retries": 1, "retry_backoff": object{"delay_secs": 0}}, after("first")),
			transform("never", "2", after("boom")),
			transform("skipped", "3", object{"condition": "false"}),
		},
		"on_failure": transform("sorry", "'sorry'"),
	})
	d := w.finish(t, "bad", nil)
	require.Equal(t, "FAILED", d.Status)
	assert.Contains(t, *d.ErrorMessage, "boom")
	assert.Equal(t, d.ErrorMessage, d.Reason)
	assert.Equal(t, []string{
		"first#1 SUCCEEDED", "boom#1 FAILED", "boom#2 FAILED", "never#1 UPSTREAM_FAILED", "skipped#1 SKIPPED", "sorry#1 SUCCEEDED",
	}, brief(d.TaskRuns))
	assert.EqualValues(t, 2, calls.Load())
	for _, boom := range d.TaskRuns[1:3] {
		assert.NotEmpty(t, *boom.ErrorType)
		assert.Contains(t, *boom.ErrorMessage, "500")
		assert.NotNil(t, boom.DurationMS)
		assert.Nil(t, boom.Output)
	}
	assert.NotEqual(t, d.TaskRuns[1].TaskRunID, d.TaskRuns[2].TaskRunID)
	assert.Nil(t, d.TaskRuns[3].StartedAt)
}

// node stores a node's item, as a worker would.
func (w world) node(t *testing.T, run string, n int, item runstate.Node) {
	t.Helper()
	item.Key = runstate.NodeKey(w.A.OrgID, run, engine.Node(n))
	require.NoError(t, w.Deps.Table.Put(t.Context(), table.Put{Item: item}))
}

// become sets a run's status and other attributes.
func (w world) become(t *testing.T, run string, status engine.Status, more ...table.Action) {
	t.Helper()
	_, err := w.Deps.Table.Update(t.Context(), table.Update{
		Key: runstate.RunKey(w.A.OrgID, run), Do: append(more, table.Set(runstate.RunStatus, string(status))),
	})
	require.NoError(t, err)
}

// TestWhyTasksWait checks the reasons why ready tasks wait, if they are known,
// and that of a run whose first task has not begun.
func TestWhyTasksWait(t *testing.T) {
	t.Parallel()
	why := map[string]string{}
	var asked []string
	w := idle(t, localtest.Options{Waiting: func(org, mode, kind string) string {
		asked = append(asked, org+" "+mode+" "+kind)
		return why[kind]
	}})
	wait := object{"name": "wait", "type": "wait", "config": object{"seconds": 1}}
	w.flow(t, "etl", "1", tasks(transform("one", "1"), transform("two", "2"), wait, transform("late", "1", after("one"))))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1", "execution_mode": "micro"})
	reasons := func() (run string, tasks []string) {
		d := w.get(t, id)
		for _, task := range d.TaskRuns {
			tasks = append(tasks, text(task.Reason))
		}
		return text(d.Reason), tasks
	}
	run, each := reasons()
	assert.Empty(t, run)
	assert.Equal(t, []string{"", "", "", ""}, each)
	why[""] = "All are busy."
	run, each = reasons()
	assert.Equal(t, "All are busy.", run)
	assert.Equal(t, []string{"", "", "", ""}, each, "they wait for their run")

	w.become(t, id, engine.Running)
	why["wait"] = "It waits for a clock."
	asked = nil
	run, each = reasons()
	assert.Empty(t, run)
	plain := "It is ready and waits for a worker."
	assert.Equal(t, []string{plain, plain, "It waits for a clock.", ""}, each)
	assert.Equal(t, []string{w.A.OrgID + " micro transform", w.A.OrgID + " micro wait"}, asked, "once of each type")
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestStatusOfTasksNotRun(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", object{
		"tasks": []object{
			transform("root", "1"), transform("waits", "1", after("root")), transform("ready", "1", after("done")),
			transform("done", "1"), transform("retries", "1", object{"retries": 2}),
			transform("each", "item", object{"map_over": "[1, 2]"}), transform("half", "1", after("done", "root")),
		},
		"on_failure": transform("sorry", "1"),
	})
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	all := func(each, root, waits, ready, half string) []string {
		return []string{
			"root#1 " + root, "waits#1 " + waits, "ready#1 " + ready, "done#1 SUCCEEDED",
			"retries#1 FAILED", "retries#2 RETRYING", "each[0]#1 REUSED", "each[1]#1 " + each, "half#1 " + half,
		}
	}
	assert.Equal(t, []string{
		"root#1 PENDING", "waits#1 PENDING", "ready#1 PENDING", "done#1 PENDING", "retries#1 PENDING", "each#1 PENDING", "half#1 PENDING",
	}, brief(w.get(t, id).TaskRuns), "a queued run's tasks wait for the run")

	width, now := 2, clock.ToMillis(w.Clock.Now())
	w.node(t, id, 3, runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: now, EndedAt: now, Output: "1"})
	w.node(t, id, 4, runstate.Node{Status: engine.Retrying, Attempt: 2, Due: now, History: []runstate.Attempt{
		{Attempt: 1, Status: engine.Failed, StartedAt: now, EndedAt: now + 5, ErrorType: "TaskFailedError", Error: "no"},
	}})
	w.node(t, id, 5, runstate.Node{Status: engine.Running, Attempt: 1, StartedAt: now, Width: &width})
	w.node(t, id, 6, runstate.Node{OK: []int{3}}) // notified by one dependency, not decided
	w.node(t, id, 7, runstate.Node{OK: []int{3}}) // END: never shown
	first := engine.NewPlan([]engine.TaskDef{{}, {Deps: []int{0}}, {Deps: []int{3}}, {}, {}, {Mapped: true}, {Deps: []int{3, 0}}}).Instance(5, 0)
	w.node(t, id, int(first), runstate.Node{Status: engine.Reused, Attempt: 1, EndedAt: now, Output: "1"})

	w.become(t, id, engine.Running)
	assert.Equal(t, all("QUEUED", "QUEUED", "PENDING", "QUEUED", "PENDING"), brief(w.get(t, id).TaskRuns))
	w.become(t, id, engine.CancellationRequested, table.Set(runstate.RunFence, runstate.FenceCancel), table.Set(runstate.RunFenceBy, "me"), table.Set(runstate.RunFenceAt, int64(now)))
	d := w.get(t, id)
	assert.Equal(t, all("PENDING", "PENDING", "PENDING", "PENDING", "PENDING"), brief(d.TaskRuns))
	assert.Contains(t, *d.Reason, "me")
	w.become(t, id, engine.Cancelled, table.Set(runstate.RunEnded, int64(now)+9))
	ended := all("CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED")
	ended[5] = "retries#2 CANCELLED"
	d = w.get(t, id)
	assert.Equal(t, ended, brief(d.TaskRuns))
	assert.Equal(t, "Cancelled by me.", *d.Reason)
	assert.Equal(t, "me", *d.CancelledBy)

	w.become(t, id, engine.TimedOut, table.Set(runstate.RunFence, runstate.FenceDeadline), table.Set(runstate.RunError, "The run passed its timeout_secs (1)."))
	d = w.get(t, id)
	assert.Equal(t, "The run passed its timeout_secs (1).", *d.Reason)
	assert.Nil(t, d.CancelledBy)
}

func TestOutputsTooLargeForResponse(t *testing.T) {
	w := live(t)
	w.flow(t, "big", "1", tasks(
		transform("each", "params.text", object{"map_over": "params.list"}),
		transform("large", "params.text + params.text"),
		transform("small", "1"),
	))
	list := make([]int, 40)
	text := strings.Repeat("é", 15_000)
	d := w.finish(t, "big", object{"text": text, "list": list})
	require.Equal(t, "SUCCEEDED", d.Status)
	require.Len(t, d.TaskRuns, 42)
	raw, _, err := blob.GetBytes(t.Context(), w.Deps.Blob, runstate.Object(w.A.OrgID, d.RunID, "out/spill-0.json"), 8<<20)
	require.NoError(t, err)
	var kept map[string]string
	require.NoError(t, json.Unmarshal(raw, &kept))
	inline := 0
	for _, task := range d.TaskRuns[:40] {
		if task.Output != nil {
			inline++
			assert.Equal(t, text, task.Output)
			assert.Nil(t, task.OutputURI)
			continue
		}
		require.NotNil(t, task.OutputURI, task.TaskRunID)
		key, id, ok := strings.Cut(*task.OutputURI, "#/")
		assert.True(t, ok)
		assert.True(t, strings.HasSuffix(key, runstate.Object(w.A.OrgID, d.RunID, "out/spill-0.json")))
		assert.Equal(t, task.TaskRunID, id)
		assert.Equal(t, text, kept[id])
	}
	assert.Equal(t, (1<<20-2*len(text)-3)/(len(text)+2), inline, "what is no map's comes first")
	assert.Len(t, kept, 40-inline)
	assert.Equal(t, text+text, d.TaskRuns[40].Output)
	assert.Nil(t, d.TaskRuns[40].OutputURI)
	assert.Equal(t, json.Number("1"), d.TaskRuns[41].Output, "there is room for it")
}

// TestOutputsInObjectStoreAreInlined checks that they are inlined up to 1 MB in
// all, if they can be read and match the task's item.
func TestOutputsInObjectStoreAreInlined(t *testing.T) {
	t.Parallel()
	w := idle(t, localtest.Options{Log: discard})
	w.flow(t, "etl", "1", tasks(transform("a", "1"), transform("b", "1"), transform("c", "1"), transform("d", "1"), transform("e", "1"), transform("f", "1"), transform("g", "1")))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	text := func(n int) string { return strings.Repeat("x", n) }
	outputs := []struct {
		stored string // the object; "" for none
		size   int    // in the item
		inline bool
	}{
		{`"` + text(300<<10) + `"`, 300<<10 + 2, true},
		{`"` + text(600<<10) + `"`, 600<<10 + 2, true},
		{`"` + text(200<<10) + `"`, 200<<10 + 2, false}, // does not fit
		{``, 9, false},
		{`"` + text(1<<10) + `"`, 9, false}, // larger than in its item
		{`{"a":`, 5, false},
		{`[1]`, 3, false}, // counts as 32 KB
	}
	for i, o := range outputs {
		key := runstate.Object(w.A.OrgID, id, fmt.Sprintf("out/%d-1.json", i))
		if o.stored != "" {
			_, err := blob.PutBytes(t.Context(), w.Deps.Blob, key, []byte(o.stored), blob.PutOptions{})
			require.NoError(t, err)
		}
		w.node(t, id, i, runstate.Node{Status: engine.Succeeded, Attempt: 1, OutputRef: key, OutputSize: int64(o.size)})
	}
	for _, status := range []engine.Status{engine.Running, engine.Succeeded} {
		w.become(t, id, status)
		d := w.get(t, id)
		require.Len(t, d.TaskRuns, len(outputs))
		for i, o := range outputs {
			task := d.TaskRuns[i]
			if !o.inline {
				assert.Nil(t, task.Output, task.TaskName)
				require.NotNil(t, task.OutputURI, task.TaskName)
				assert.Contains(t, *task.OutputURI, fmt.Sprintf("out/%d-1.json", i))
				continue
			}
			assert.Nil(t, task.OutputURI, task.TaskName)
			assert.Equal(t, o.stored[1:len(o.stored)-1], task.Output, task.TaskName)
		}
	}
}

func TestManyErrorMessagesAreTruncated(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", tasks(transform("each", "item", object{"map_over": "[1]"})))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	width := 1500
	w.node(t, id, 0, runstate.Node{Status: engine.Failed, Attempt: 1, Width: &width})
	first := int(engine.NewPlan([]engine.TaskDef{{Mapped: true}}).Instance(0, 0))
	for i := range width {
		w.node(t, id, first+i, runstate.Node{Status: engine.Failed, Attempt: 1, ErrorType: "E", Error: strings.Repeat("é", 1000)})
	}
	res := w.Do(t, w.A.Key, "GET", "/runs/"+id, nil).Require(t, 200)
	assert.Less(t, len(res.Body), 3<<20)
	d := w.get(t, id)
	require.Len(t, d.TaskRuns, width)
	assert.Len(t, *d.TaskRuns[0].ErrorMessage, 2000)
	assert.Equal(t, strings.Repeat("é", 100)+"…", *d.TaskRuns[width-1].ErrorMessage)
}
