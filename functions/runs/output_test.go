package runs_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/runstate"
)

// output reads the output of a run's task.
func (w world) output(t *testing.T, run, path string, status int) string {
	t.Helper()
	return string(w.Do(t, w.A.Key, "GET", "/runs/"+run+path, nil).Require(t, status).Body)
}

// TestOutputsOfAnySize reads outputs, small and large, and those of a mapped
// task as a whole and by instance.
func TestOutputsOfAnySize(t *testing.T) {
	t.Parallel()
	w := live(t)
	kilo := `["0123456789abcdef", "0123456789abcdef", "0123456789abcdef", "0123456789abcdef", "0123456789abcdef", "0123456789abcdef", "0123456789abcdef", "0123456789abcdef"]`
	w.flow(t, "etl", "1", tasks(
		transform("small", "{'a': 1}"),
		transform("nothing", "null"),
		transform("large", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, "+kilo+".map(j, "+kilo+".map(k, "+kilo+".map(l, k + l))))"),
		transform("middle", kilo+".map(j, "+kilo+".map(k, "+kilo+".map(l, k + l)))"),
		transform("each", "10 / item", object{"map_over": "[1, 0, 5]"}),
		transform("none", "item", object{"map_over": "[]"}),
		transform("read", "item * 2", object{"map_over": "[1, 2]"}),
		transform("sum", "tasks.read.output", after("read")),
		transform("skipped", "1", object{"condition": "false"}),
	))
	d := w.finish(t, "etl", nil)
	require.Equal(t, "FAILED", d.Status, "an instance divides by zero")
	id := d.RunID
	for path, want := range map[string]string{
		"small": `{"a":1}`, "small/output?attempt=1": `{"a":1}`, "nothing": `null`, "each": `[10,null,2]`, "each/output?map_index=2": `2`, "none": `[]`,
		"read": `[2,4]`, "read/output?map_index=0&attempt=1": `2`,
	} {
		if !strings.Contains(path, "/") {
			path += "/output"
		}
		assert.JSONEq(t, want, w.output(t, id, "/tasks/"+path, 200), path)
	}
	middle := w.output(t, id, "/tasks/middle/output", 200)
	assert.Greater(t, len(middle), 17_000)
	for _, path := range []string{
		"gone", "skipped", "small/output?attempt=2", "small/output?map_index=0", "each/output?map_index=1", "each/output?map_index=3", "each/output?attempt=1",
		"none/output?map_index=0",
	} {
		if !strings.Contains(path, "/") {
			path += "/output"
		}
		w.output(t, id, "/tasks/"+path, 404)
	}
	w.output(t, id, "/tasks/each/output?map_index=-1", 422)
	w.Do(t, w.B.Key, "GET", "/runs/"+id+"/tasks/small/output", nil).Require(t, 404)

	// A retry has the outputs that it reuses.
	again := w.Do(t, w.A.Key, "POST", "/runs/"+id+"/retry-from-failed", nil).Require(t, 200).String(t, "run_id")
	w.ended(t, again)
	assert.JSONEq(t, `{"a":1}`, w.output(t, again, "/tasks/small/output", 200))
	assert.JSONEq(t, `[2,4]`, w.output(t, again, "/tasks/read/output", 200))
	assert.JSONEq(t, `4`, w.output(t, again, "/tasks/read/output?map_index=1", 200))
	assert.JSONEq(t, `[10,null,2]`, w.output(t, again, "/tasks/each/output", 200))
}

// TestLargeOutputsAreRedirected checks that outputs above 1 MB are served by
// the object store.
func TestLargeOutputsAreRedirected(t *testing.T) {
	t.Parallel()
	w := live(t)
	text := strings.Repeat("0123456789abcdef", 1<<13) // 128 KB
	spec := tasks(transform("large", "[1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, params.text)"), transform("middle", "params.text"))
	spec["result"] = "tasks.large.output"
	w.flow(t, "etl", "1", spec)
	d := w.finish(t, "etl", object{"text": text})
	require.Equal(t, "SUCCEEDED", d.Status)
	assert.JSONEq(t, `"`+text+`"`, w.output(t, d.RunID, "/tasks/middle/output", 200))
	for _, path := range []string{"/tasks/large/output", "/result"} {
		res := w.Do(t, w.A.Key, "GET", "/runs/"+d.RunID+path, nil).Require(t, 302)
		get, err := http.Get(res.Header.Get("Location"))
		require.NoError(t, err)
		body, err := io.ReadAll(get.Body)
		require.NoError(t, err)
		require.NoError(t, get.Body.Close())
		require.Equal(t, 200, get.StatusCode, string(body))
		var list []string
		require.NoError(t, json.Unmarshal(body, &list))
		assert.Len(t, list, 9)
	}
	detail := w.Do(t, w.A.Key, "GET", "/runs/"+d.RunID, nil).Require(t, 200)
	assert.NotEmpty(t, detail.String(t, "result_uri"))
	assert.NotContains(t, string(detail.Body), `"result":`)
}

// TestLostOutputsAreGone checks that outputs of any size that the object store has
// lost are answered alike, and not as outputs that there never were.
func TestLostOutputsAreGone(t *testing.T) {
	t.Parallel()
	w := live(t)
	text := strings.Repeat("0123456789abcdef", 1<<13) // 128 KB
	spec := tasks(transform("large", "[1, 2, 3, 4, 5, 6, 7, 8, 9].map(i, params.text)"), transform("middle", "params.text"))
	spec["result"] = "tasks.large.output"
	w.flow(t, "etl", "1", spec)
	d := w.finish(t, "etl", object{"text": text})
	require.Equal(t, "SUCCEEDED", d.Status)
	stored, _, err := w.Deps.Blob.List(t.Context(), runstate.Object(w.A.OrgID, d.RunID, "out/"), "", 100)
	require.NoError(t, err)
	require.NotEmpty(t, stored)
	for _, o := range stored {
		require.NoError(t, w.Deps.Blob.Delete(t.Context(), o.Key))
	}
	for _, path := range []string{"/tasks/middle/output", "/tasks/large/output", "/result"} {
		assert.Contains(t, w.output(t, d.RunID, path, 410), "missing or damaged", path)
	}
	detail := w.Do(t, w.A.Key, "GET", "/runs/"+d.RunID, nil).Require(t, 200)
	assert.NotEmpty(t, detail.String(t, "result_uri"), "the run is shown as it was")
}

// TestResult checks that a successful run shows the value of its flow's result,
// and that one without a value succeeds and shows the error.
func TestResult(t *testing.T) {
	t.Parallel()
	w := live(t)
	for name, c := range map[string]struct {
		result any
		want   string
		bad    string
	}{
		"output":     {"tasks.b.output", `42`, ""},
		"expression": {"tasks.b.output + 1", `43`, ""},
		"object":     {object{"answer": "${{ tasks.b.output }}", "of": "run ${{ run.flow_name }}", "n": 1}, `{"answer":42,"of":"run object","n":1}`, ""},
		"null":       {"null", `null`, ""},
		"broken":     {"tasks.b.output / 0", "", "division by zero"},
	} {
		spec := object{"tasks": chain["tasks"], "result": c.result}
		w.flow(t, name, "1", spec)
		d := w.finish(t, name, nil)
		assert.Equal(t, "SUCCEEDED", d.Status, name)
		detail := w.Do(t, w.A.Key, "GET", "/runs/"+d.RunID, nil).Require(t, 200)
		if c.bad != "" {
			assert.Contains(t, detail.String(t, "result_error"), c.bad)
			assert.NotContains(t, string(detail.Body), `"result":`)
			assert.Contains(t, w.output(t, d.RunID, "/result", 404), c.bad)
			continue
		}
		var out struct {
			Result json.RawMessage `json:"result"`
		}
		detail.Into(t, &out)
		assert.JSONEq(t, c.want, string(out.Result), name)
		assert.NotContains(t, string(detail.Body), "result_error")
		assert.JSONEq(t, c.want, w.output(t, d.RunID, "/result", 200))
	}
	w.flow(t, "failing", "1", object{"tasks": []object{transform("a", "1 / 0"), transform("b", "1")}, "result": "tasks.b.output"})
	d := w.finish(t, "failing", nil)
	assert.Equal(t, "FAILED", d.Status)
	w.output(t, d.RunID, "/result", 404)
	w.flow(t, "etl", "1", chain)
	w.output(t, w.finish(t, "etl", nil).RunID, "/result", 404)
}
