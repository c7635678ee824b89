package flowspec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/errs"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

type m = map[string]any

func python(name string, deps ...string) m {
	return m{"name": name, "type": "python", "entrypoint": "f:" + strings.ReplaceAll(name, "-", "_"), "depends_on": deps}
}

func raw(t testing.TB, spec any) json.RawMessage {
	out, err := json.Marshal(spec)
	require.NoError(t, err)
	return out
}

func parse(t testing.TB, tasks ...m) *flowspec.Flow {
	flow, faults := flowspec.Parse(t.Context(), raw(t, m{"tasks": tasks}), tasktype.Kinds())
	require.Empty(t, faults)
	return flow
}

func TestGraph(t *testing.T) {
	t.Parallel()
	f := parse(t, python("d", "b", "c"), python("a"), python("b", "a"), python("c", "a"), python("e"))
	assert.Equal(t, []int{2, 3}, f.Deps(0))
	assert.Equal(t, []int{2, 3}, f.Dependents(1))
	assert.Equal(t, []int{0, 4}, f.Sinks())
	assert.Equal(t, []int{1, 2, 3}, slices.Collect(f.Ancestors(0)))
	assert.True(t, f.IsAncestor(1, 0))
	assert.False(t, f.IsAncestor(0, 1))
	i, ok := f.Index("c")
	assert.True(t, ok)
	assert.Equal(t, 3, i)
	_, ok = f.Index("nope")
	assert.False(t, ok)
}

func TestHashIgnoresLayout(t *testing.T) {
	t.Parallel()
	a, faults := flowspec.Parse(t.Context(), json.RawMessage(`{"tasks":[{"name":"a","type":"wait","config":{"seconds":1}}]}`), tasktype.Kinds())
	require.Empty(t, faults)
	b, faults := flowspec.Parse(t.Context(), json.RawMessage("{ \"tasks\": [\n{\"type\":\"wait\",\"config\":{\"seconds\":1},\"name\":\"\\u0061\"}]}"), tasktype.Kinds())
	require.Empty(t, faults)
	c, faults := flowspec.Parse(t.Context(), json.RawMessage(`{"tasks":[{"name":"a","type":"wait","config":{"seconds":2}}]}`), tasktype.Kinds())
	require.Empty(t, faults)
	assert.Equal(t, a.Hash(), b.Hash())
	assert.NotEqual(t, a.Hash(), c.Hash())
	assert.Len(t, a.Hash(), 64)
}

func TestLoadRejectsDamagedContent(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{``, `[]`, `{"tasks":[{"name":"a","depends_on":["b"]}]}`,
		`{"tasks":[{"name":"a","depends_on":["b"]},{"name":"b","depends_on":["a"]}]}`} {
		_, err := flowspec.Load([]byte(bad), tasktype.Kinds())
		assert.Error(t, err, bad)
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	plain := flowspec.Task{}
	assert.Equal(t, time.Second, plain.RetryDelay(1))
	assert.Equal(t, 4*time.Second, plain.RetryDelay(3))
	assert.Equal(t, 300*time.Second, plain.RetryDelay(100))

	f := parse(t, m{"name": "a", "type": "python", "entrypoint": "f:a", "retry_backoff": m{"delay_secs": 0.5, "factor": 3}})
	assert.Equal(t, 500*time.Millisecond, f.Tasks[0].RetryDelay(1))
	assert.Equal(t, 1500*time.Millisecond, f.Tasks[0].RetryDelay(2))
	assert.Equal(t, 300*time.Second, f.Tasks[0].RetryDelay(50))
}

func TestUsed(t *testing.T) {
	t.Parallel()
	wait := func(name string, deps ...string) m {
		return m{"name": name, "type": "wait", "depends_on": deps, "config": m{"seconds": 0}}
	}
	read := wait("g", "a-b", "c")
	read["condition"] = `tasks["a-b"].status == "SUCCEEDED"`
	assert.Equal(t, []bool{true, false, false}, parse(t, wait("a-b"), wait("c"), read).Used())

	escaped := wait("g", "a-b", "c")
	escaped["condition"] = `tasks["\x61-b"].status == "SUCCEEDED"`
	assert.Equal(t, []bool{true, true, true}, parse(t, wait("a-b"), wait("c"), escaped).Used())

	assert.Equal(t, []bool{true, true, false, false}, parse(t, wait("a"), wait("b", "a"), python("p", "b"), wait("z", "p")).Used())
}

// Any graph is either ordered or has a cycle, which is reported correctly.
func TestOrderOrCycle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		deps := map[string][]string{}
		tasks := make([]m, n)
		for i := range n {
			name := fmt.Sprint("t", i)
			for d := range n {
				if d != i && rapid.IntRange(0, 5).Draw(t, "edge") == 0 {
					deps[name] = append(deps[name], fmt.Sprint("t", d))
				}
			}
			tasks[i] = python(name, deps[name]...)
		}
		body, _ := json.Marshal(m{"tasks": tasks})
		flow, faults := flowspec.Parse(t.Context(), body, tasktype.Kinds())
		if flow == nil {
			if len(faults) != 1 || faults[0].Type != "DependencyCycleError" {
				t.Fatalf("faults: %v", faults)
			}
			_, ring, _ := strings.Cut(faults[0].Msg, "cycle: ")
			names := strings.Split(ring, " -> ")
			if len(names) < 3 || names[0] != names[len(names)-1] {
				t.Fatalf("not a cycle: %s", ring)
			}
			for i := range len(names) - 1 {
				if !slices.Contains(deps[names[i+1]], names[i]) {
					t.Fatalf("%s does not depend on %s", names[i+1], names[i])
				}
			}
			return
		}
		place := map[int]int{}
		for at, i := range flow.Order() {
			place[i] = at
		}
		if len(place) != n {
			t.Fatalf("order %v", flow.Order())
		}
		for i := range n {
			above := slices.Collect(flow.Ancestors(i))
			for _, d := range flow.Deps(i) {
				if place[d] >= place[i] || !slices.Contains(above, d) {
					t.Fatalf("task %d, dependency %d, order %v, ancestors %v", i, d, flow.Order(), above)
				}
			}
			for _, a := range above {
				if place[a] >= place[i] {
					t.Fatalf("ancestor %d of %d is not before it", a, i)
				}
			}
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	tasks := make([]m, flowspec.MaxTasks+1)
	for i := range tasks {
		tasks[i] = python(fmt.Sprint("t", i))
	}
	_, faults := flowspec.Parse(t.Context(), raw(t, m{"tasks": tasks}), tasktype.Kinds())
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0].Msg, "at most 10000 tasks")

	for i := range tasks {
		tasks[i]["retries"] = -1
	}
	_, faults = flowspec.Parse(t.Context(), raw(t, m{"tasks": tasks[:flowspec.MaxTasks]}), tasktype.Kinds())
	assert.Len(t, faults, 1000)

	big := python("a")
	big["description"] = strings.Repeat("x", flowspec.MaxBytes)
	_, faults = flowspec.Parse(t.Context(), raw(t, m{"tasks": []m{big}}), tasktype.Kinds())
	require.Len(t, faults, 1)
	assert.Contains(t, faults[0].Msg, "bytes")
}

func TestCustomKinds(t *testing.T) {
	t.Parallel()
	kinds := maps.Clone(tasktype.Kinds())
	kinds["sql"] = flowspec.Kind{Name: "sql", NeedsConfig: true, DefaultTimeoutSecs: 7, MaxTimeoutSecs: 9, CheckConfig: func(c *flowspec.Object) {
		c.Only("query", "limit")
		c.Require("query")
		c.Text("query")
		c.Int("limit", 1, 10)
	}}
	spec := m{"tasks": []m{{"name": "a", "type": "sql", "config": m{"query": "select", "limit": "${{ params.n }}"}}}}
	flow, faults := flowspec.Parse(t.Context(), raw(t, spec), kinds)
	require.Empty(t, faults)
	assert.Equal(t, 7, flow.Tasks[0].TimeoutSecs)
	_, faults = flowspec.Parse(t.Context(), raw(t, spec), tasktype.Kinds())
	assert.Len(t, faults, 1)

	for field, value := range (m{"timeout_secs": 10, "config": m{"query": "${{ secrets.query }}"}}) {
		bad := maps.Clone(spec["tasks"].([]m)[0])
		bad[field] = value
		_, faults = flowspec.Parse(t.Context(), raw(t, m{"tasks": []m{bad}}), kinds)
		require.Len(t, faults, 1)
		assert.Equal(t, []any{"body", "flow_spec", "tasks", 0, field}, faults[0].Loc)
	}
}

func TestParamsKeepEveryDigit(t *testing.T) {
	t.Parallel()
	f := withSchema(t, json.RawMessage(`{"properties":{"n":{"type":"integer"},"d":{"default":12345678901234567890},"o":{"properties":{"x":{"default":1}}}}}`))
	got, faults := f.CheckParams(t.Context(), map[string]json.RawMessage{"n": json.RawMessage(`123456789012345678901`), "o": json.RawMessage(`{"y":123456789012345678901}`)}, nil)
	require.Empty(t, faults)
	assert.Equal(t, `123456789012345678901`, string(got["n"]))
	assert.Equal(t, `12345678901234567890`, string(got["d"]))
	assert.Equal(t, `{"x":1,"y":123456789012345678901}`, string(got["o"]))
}

func TestDefaultsAreNotShared(t *testing.T) {
	t.Parallel()
	f := withSchema(t, json.RawMessage(`{"properties":{"o":{"default":{},"properties":{"x":{"default":[1]}}}}}`))
	for range 2 {
		got, faults := f.CheckParams(t.Context(), nil, nil)
		require.Empty(t, faults)
		assert.Equal(t, `{"x":[1]}`, string(got["o"]))
	}
}

func TestCheckDefaults(t *testing.T) {
	t.Parallel()
	f := withSchema(t, json.RawMessage(`{"properties":{"day":{"type":"string"}},"required":["day"],"additionalProperties":false}`))
	require.NoError(t, f.CheckDefaults(t.Context(), nil))
	err := f.CheckDefaults(t.Context(), map[string]json.RawMessage{"day": json.RawMessage(`1`), "x": json.RawMessage(`1`)})
	assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
	var e *errs.Error
	require.ErrorAs(t, err, &e)
	assert.Len(t, e.Details, 2)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"tasks":[{"name":"a","type":"python","entrypoint":"f:a"},{"name":"b","type":"wait","depends_on":["a"],"config":{"seconds":"${{ tasks.a.output }}"}}]}`))
	f.Add([]byte(`{"parameters":{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"$ref":"#"}}},"tasks":[{"name":"a","type":"transform","config":{"expression":"1"}}]}`))
	f.Add([]byte(`{"tasks":[{"name":"h","type":"http","config":{"url":"https://e.com","headers":{"a":"b"},"expected_status":[200]}}],"on_failure":{"name":"x","type":"wait","config":{"seconds":1e0}}}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		flow, faults := flowspec.Parse(t.Context(), spec, tasktype.Kinds())
		if (flow == nil) != (len(faults) > 0) {
			t.Fatalf("flow %v with faults %v", flow, faults)
		}
		if flow == nil {
			if _, err := json.Marshal(faults); err != nil {
				t.Fatal(err)
			}
			return
		}
		again, faults := flowspec.Parse(t.Context(), flow.Canonical(), tasktype.Kinds())
		if len(faults) > 0 || again.Hash() != flow.Hash() {
			t.Fatalf("the canonical form of %q is not stable: %v", spec, faults)
		}
		flow.Used()
		flow.CheckParams(t.Context(), map[string]json.RawMessage{"a": json.RawMessage(`{"a":[1]}`)}, nil)
	})
}

// chain returns a flow of n tasks: a Python task followed by transforms, each
// with a different expression.
func chain(n int) []m {
	tasks := []m{python("t0")}
	for i := 1; i < n; i++ {
		tasks = append(tasks, m{
			"name": fmt.Sprint("t", i), "type": "transform", "depends_on": []string{fmt.Sprint("t", i-1)},
			"config": m{"expression": fmt.Sprintf("tasks.t%d.output.filter(r, r.n > %d)", i-1, i)},
		})
	}
	return tasks
}

func BenchmarkParse(b *testing.B) {
	plain := make([]m, flowspec.MaxTasks)
	for i := range plain {
		plain[i] = python(fmt.Sprint("t", i))
		for d := 1; d <= min(i, 3); d++ {
			plain[i]["depends_on"] = append(plain[i]["depends_on"].([]string), fmt.Sprint("t", i-d*d*d%(i+1)))
		}
		plain[i]["depends_on"] = slices.Compact(plain[i]["depends_on"].([]string))
	}
	for i := range plain {
		deps := plain[i]["depends_on"].([]string)
		deps = slices.DeleteFunc(deps, func(d string) bool { return d == plain[i]["name"] })
		slices.Sort(deps)
		plain[i]["depends_on"] = slices.Compact(deps)
	}
	for name, tasks := range map[string][]m{
		"40 tasks":                              chain(40),
		"10000 tasks":                           plain,
		"10000 tasks with distinct expressions": chain(flowspec.MaxTasks),
	} {
		body := raw(b, m{"tasks": tasks})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, faults := flowspec.Parse(b.Context(), body, tasktype.Kinds()); len(faults) > 0 {
					b.Fatal(faults[0])
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{40, flowspec.MaxTasks} {
		flow := parse(b, chain(n)...)
		b.Run(fmt.Sprint(n, " tasks"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := flowspec.Load(flow.Canonical(), tasktype.Kinds())
				if err != nil {
					b.Fatal(err)
				}
				f.Used()
			}
		})
	}
}

func BenchmarkCheckParams(b *testing.B) {
	f := withSchema(b, json.RawMessage(`{"type":"object","properties":{"day":{"type":"string"},"n":{"type":"integer","default":5}},"required":["day"]}`))
	params := map[string]json.RawMessage{"day": json.RawMessage(`"2026-01-02"`)}
	for b.Loop() {
		if _, faults := f.CheckParams(b.Context(), params, nil); len(faults) > 0 {
			b.Fatal(faults[0])
		}
	}
}
