package flowspec_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

// whole parses a document.
func whole(t *testing.T, doc m) *flowspec.Flow {
	t.Helper()
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	flow, faults := flowspec.Parse(t.Context(), raw, tasktype.Kinds())
	require.Empty(t, faults)
	return flow
}

func TestArgumentsSeparateWholeOutputs(t *testing.T) {
	t.Parallel()
	taking := python("b", "a")
	taking["inputs"] = m{"rows": "${{ tasks.a.output }}", "named": `${{ tasks["a"].output }}`, "first": "${{ tasks.a.output[0] }}", "n": 3, "status": "${{ tasks.a.status }}"}
	flow := parse(t, python("a"), taking, python("c"))
	arguments, err := flow.Tasks[1].Arguments()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"rows": "a", "named": "a"}, arguments.Outputs)
	v, err := arguments.Values.Render(t.Context(), expr.Scope{Tasks: map[string]expr.TaskView{"a": {Output: []any{"x"}, Status: "SUCCEEDED"}}}, nil)
	require.NoError(t, err)
	assert.Equal(t, m{"first": "x", "n": int64(3), "status": "SUCCEEDED"}, v)

	assert.True(t, flow.Tasks[1].HasInputs())
	assert.False(t, flow.Tasks[2].HasInputs())
	none, err := flow.Tasks[2].Arguments()
	assert.Nil(t, none)
	assert.NoError(t, err)
	empty := python("a")
	empty["inputs"] = m{}
	assert.True(t, parse(t, empty).Tasks[0].HasInputs(), "an empty object says that there are none")
}

// TestUsedByInputsAndResult checks that a function with inputs reads only the
// tasks in them, and that the result reads tasks as well.
func TestUsedByInputsAndResult(t *testing.T) {
	t.Parallel()
	taking := python("c", "a", "b")
	taking["inputs"] = m{"rows": "${{ tasks.b.output }}"}
	assert.Equal(t, []bool{false, true, false}, parse(t, python("a"), python("b"), taking).Used())
	taking["inputs"] = m{}
	assert.Equal(t, []bool{true, false, false}, whole(t, m{"tasks": []m{python("a"), python("b"), taking}, "result": "tasks.a.output"}).Used())
}

func TestResultTemplate(t *testing.T) {
	t.Parallel()
	scope := expr.Scope{Params: m{"day": "monday"}, Tasks: map[string]expr.TaskView{"a": {Output: int64(2)}}}
	for result, want := range map[string]any{
		`"tasks.a.output"`:                         int64(2),
		`"${{ tasks.a.output }}"`:                  int64(2),
		`"tasks.a.output + 1"`:                     int64(3),
		`"{'n': tasks.a.output}"`:                  m{"n": int64(2)},
		`{"n": "${{ tasks.a.output }}", "x": "y"}`: m{"n": int64(2), "x": "y"},
		`["${{ params.day }}", 1]`:                 []any{"monday", int64(1)},
		`"it was ${{ params.day }}"`:               "it was monday",
	} {
		flow := whole(t, m{"tasks": []m{python("a")}, "result": json.RawMessage(result)})
		template, err := flow.ResultTemplate()
		require.NoError(t, err)
		v, err := template.Render(t.Context(), scope, nil)
		require.NoError(t, err, result)
		assert.Equal(t, want, v, result)
	}
	template, err := whole(t, m{"tasks": []m{python("a")}, "result": "tasks.a.output"}).ResultTemplate()
	require.NoError(t, err)
	task, direct := template.Output()
	assert.True(t, direct)
	assert.Equal(t, "a", task)
	template, err = whole(t, m{"tasks": []m{python("a")}, "result": nil}).ResultTemplate()
	assert.NoError(t, err)
	assert.Nil(t, template)
}

// TestUnchanged checks that a task is unchanged if its entry and those of all
// tasks before it are, wherever it is in the flow.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	before := parse(t, python("a"), python("b", "a"), python("c", "b"), python("d"), python("gone"))
	other := python("b", "a")
	other["retries"] = 3
	after := parse(t, python("d"), python("new"), python("a"), other, python("c", "b"))
	same, err := after.Unchanged(before)
	require.NoError(t, err)
	assert.Equal(t, []int{3, -1, 0, -1, -1}, same)
	same, err = before.Unchanged(before)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2, 3, 4}, same)
}
