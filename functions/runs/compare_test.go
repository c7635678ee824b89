package runs_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

type side struct {
	Status     string   `json:"status"`
	Attempt    int      `json:"attempt"`
	DurationMS *int64   `json:"duration_ms"`
	Cost       *float64 `json:"cost"`
}

type compared struct {
	TaskName        string `json:"task_name"`
	A               *side  `json:"a"`
	B               *side  `json:"b"`
	DurationDeltaMS *int64 `json:"duration_delta_ms"`
	StatusChanged   bool   `json:"status_changed"`
}

func (w world) compare(t *testing.T, a, b string) (object, map[string]compared, []string) {
	t.Helper()
	res := w.Do(t, w.A.Key, "GET", "/runs/compare?run_a="+a+"&run_b="+b, nil).Require(t, 200)
	var body struct {
		Tasks []compared `json:"tasks"`
	}
	res.Into(t, &body)
	byName, names := map[string]compared{}, []string{}
	for _, task := range body.Tasks {
		byName[task.TaskName] = task
		names = append(names, task.TaskName)
	}
	return res.Object(t), byName, names
}

func TestRunComparison(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", tasks(transform("a", "1"), transform("b", "1"), transform("gone", "1"), transform("each", "item", object{"map_over": "[1, 2]"})))
	w.flow(t, "etl", "2", tasks(transform("new", "1"), transform("each", "item", object{"map_over": "[1, 2]"}), transform("b", "1"), transform("a", "1", object{"retries": 1})))
	a := w.Do(t, w.A.Key, "POST", "/runs", `{"flow_name":"etl","flow_version":"1","parameters":{"same":{"x":1,"y":[2]},"changed":9007199254740993,"removed":null}}`).Require(t, 200).String(t, "run_id")
	b := w.Do(t, w.A.Key, "POST", "/runs", `{"flow_name":"etl","flow_version":"2","parameters":{"same":{"y":[2], "x":1},"changed":9007199254740992,"added":"n"}}`).Require(t, 200).String(t, "run_id")

	body, _, _ := w.compare(t, a, b)
	assert.ElementsMatch(t, []string{"run_a", "run_b", "status", "flow", "duration_delta_ms", "cost_delta", "parameters", "tasks"}, keysOf(body))
	assert.Nil(t, body["duration_delta_ms"], "neither has ended")
	assert.Equal(t, object{"a": "QUEUED", "b": "QUEUED", "changed": false}, body["status"])

	const t0 = clock.Millis(1_800_000_000_000)
	width := 2
	w.node(t, a, 0, runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: t0, EndedAt: t0 + 100})
	w.node(t, a, 1, runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: t0, EndedAt: t0 + 500})
	w.node(t, a, 2, runstate.Node{Status: engine.Skipped, EndedAt: t0})
	w.node(t, a, 3, runstate.Node{Status: engine.Succeeded, Attempt: 1, Width: &width, StartedAt: t0, EndedAt: t0 + 1000})
	w.become(t, a, engine.Succeeded, table.Set(runstate.RunStarted, int64(t0)), table.Set(runstate.RunEnded, int64(t0)+2000))
	w.node(t, b, 0, runstate.Node{Status: engine.Succeeded, Attempt: 1, StartedAt: t0, EndedAt: t0 + 1})
	w.node(t, b, 1, runstate.Node{Status: engine.Failed, Attempt: 1, Width: &width, StartedAt: t0, EndedAt: t0 + 700})
	w.node(t, b, 2, runstate.Node{Status: engine.UpstreamFailed, EndedAt: t0})
	w.node(t, b, 3, runstate.Node{Status: engine.Succeeded, Attempt: 2, StartedAt: t0 + 50, EndedAt: t0 + 190, History: []runstate.Attempt{
		{Attempt: 1, Status: engine.Failed, StartedAt: t0, EndedAt: t0 + 5},
	}})
	w.become(t, b, engine.Failed, table.Set(runstate.RunStarted, int64(t0)), table.Set(runstate.RunEnded, int64(t0)+2500))

	body, task, names := w.compare(t, a, b)
	assert.Equal(t, object{"a": "SUCCEEDED", "b": "FAILED", "changed": true}, body["status"])
	assert.Equal(t, object{
		"a": object{"flow_name": "etl", "flow_version": "1"}, "b": object{"flow_name": "etl", "flow_version": "2"},
		"name_changed": false, "version_changed": true,
	}, body["flow"])
	assert.Equal(t, a, body["run_a"].(object)["run_id"])
	assert.Equal(t, b, body["run_b"].(object)["run_id"])
	assert.Nil(t, body["run_a"].(object)["cost"])
	assert.Equal(t, json.Number("500"), body["duration_delta_ms"], "positive: B took longer")
	assert.Equal(t, object{
		"added": object{"added": "n"}, "removed": object{"removed": nil},
		"changed": object{"changed": object{"a": json.Number("9007199254740993"), "b": json.Number("9007199254740992")}},
	}, body["parameters"])

	assert.Equal(t, []string{"a", "b", "gone", "each", "new"}, names)
	require.NotNil(t, task["a"].DurationDeltaMS)
	assert.EqualValues(t, 40, *task["a"].DurationDeltaMS)
	assert.Equal(t, 2, task["a"].B.Attempt, "the latest attempt")
	assert.False(t, task["a"].StatusChanged)
	assert.True(t, task["b"].StatusChanged)
	assert.Nil(t, task["b"].DurationDeltaMS, "a time is missing")
	assert.Nil(t, task["b"].B.DurationMS)
	assert.Nil(t, task["b"].A.Cost)
	assert.Nil(t, task["gone"].B)
	assert.True(t, task["gone"].StatusChanged)
	assert.Nil(t, task["gone"].DurationDeltaMS)
	assert.Nil(t, task["new"].A)
	assert.EqualValues(t, -300, *task["each"].DurationDeltaMS, "a mapped task as a whole")
	assert.Equal(t, "FAILED", task["each"].B.Status)

	body, task, _ = w.compare(t, b, a)
	assert.Equal(t, json.Number("-500"), body["duration_delta_ms"])
	assert.EqualValues(t, -40, *task["a"].DurationDeltaMS)

	body, task, _ = w.compare(t, a, a)
	assert.Equal(t, json.Number("0"), body["duration_delta_ms"])
	assert.Equal(t, object{"added": object{}, "removed": object{}, "changed": object{}}, body["parameters"])
	for name, c := range task {
		assert.False(t, c.StatusChanged, name)
	}
}

func TestCompareRunsOfDifferentFlows(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "one", "1", tasks(transform("a", "1"), transform("b", "1", after("a"))))
	w.flow(t, "two", "1", object{"tasks": []object{transform("a", "1")}, "on_failure": transform("sorry", "1")})
	one := w.run(t, object{"flow_name": "one", "flow_version": "1"})
	two := w.run(t, object{"flow_name": "two", "flow_version": "1"})
	w.become(t, one, engine.Running)
	_, task, names := w.compare(t, one, two)
	assert.Equal(t, []string{"a", "b"}, names, "on_failure only where it ran")
	assert.Equal(t, "QUEUED", task["a"].A.Status)
	assert.Equal(t, "PENDING", task["a"].B.Status)
	assert.Equal(t, "PENDING", task["b"].A.Status)
	assert.True(t, task["a"].StatusChanged)
	w.node(t, two, 2, runstate.Node{Status: engine.Succeeded, Attempt: 1})
	body, _, names := w.compare(t, one, two)
	assert.Equal(t, []string{"a", "b", "sorry"}, names)
	assert.Equal(t, true, body["flow"].(object)["name_changed"])
}

// TestDescription checks the parameters and responses in the OpenAPI document.
func TestDescription(t *testing.T) {
	t.Parallel()
	w := idle(t)
	raw, err := w.API.JSON()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name     string `json:"name"`
				Required bool   `json:"required"`
				Schema   struct {
					Type any `json:"type"`
				} `json:"schema"`
			} `json:"parameters"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					} `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	types := map[string]any{}
	for _, p := range doc.Paths["/runs"]["get"].Parameters {
		types[p.Name] = p.Schema.Type
		assert.False(t, p.Required, p.Name)
	}
	assert.Equal(t, map[string]any{
		"flow_name": "string", "environment": "string", "since": "string", "limit": "integer", "deployment": "string",
		"status": "string", "trigger_source": "string", "triggered_by": "string", "until": "string",
	}, types)
	for path, method := range map[string]string{"/runs": "get", "/runs/{run_id}": "get", "/runs/compare": "get", "/runs/{run_id}/cancel": "post"} {
		assert.NotEmpty(t, doc.Paths[path][method].Responses["200"].Content["application/json"].Schema.Ref, path)
	}
	assert.Equal(t, "#/components/schemas/RunResponse", doc.Paths["/runs"]["post"].Responses["200"].Content["application/json"].Schema.Ref)
}
