package expr_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/expr"
)

func scope(t testing.TB) expr.Scope {
	return expr.Scope{
		Params: object(t, `{"day":"2026-01-02","n":3,"ratio":0.5,"big":12345678901234567890,"huge":123456789012345678901234567890,"none":null,"plus":"+"}`),
		Run:    object(t, `{"run_id":"01J","flow_name":"nightly","flow_version":"1","environment":"prod","logical_date":"2026-01-02T00:00:00Z"}`),
		Vars:   object(t, `{"REGION":"eu"}`),
		Tasks: map[string]expr.TaskView{
			"extract": {Output: decode(t, `[{"id":1,"ok":true},{"id":2,"ok":false},{"id":3,"ok":true}]`), Status: "SUCCEEDED"},
			"my-task": {Output: decode(t, `{"a":{"b":[1,2.5]}}`), Status: "FAILED"},
		},
	}
}

func decode(t testing.TB, s string) any {
	v, err := expr.Decode(json.RawMessage(s))
	require.NoError(t, err)
	return v
}

func object(t testing.TB, s string) map[string]any { return decode(t, s).(map[string]any) }

func TestEval(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`params.day`:                                     `"2026-01-02"`,
		`params.n * 2 + 1`:                               `7`,
		`params.ratio * 2.0`:                             `1`,
		`params.none`:                                    `null`,
		`params.big`:                                     `12345678901234567890`,
		`params.big > 5`:                                 `true`,
		`[params.huge > 5.0]`:                            `[true]`,
		`run.flow_name + "@" + vars.REGION`:              `"nightly@eu"`,
		`tasks.extract.output.filter(r, r.ok)`:           `[{"id":1,"ok":true},{"id":3,"ok":true}]`,
		`tasks.extract.output.map(r, r.id * 10)`:         `[10,20,30]`,
		`tasks.extract.output[0]`:                        `{"id":1,"ok":true}`,
		`tasks["extract"].status`:                        `"SUCCEEDED"`,
		`tasks["my-task"].output.a.b`:                    `[1,2.5]`,
		"tasks.`my-task`.output.a.b[0]":                  `1`,
		`tasks["my-task"]["status"] != "FAILED"`:         `false`,
		`has(params.missing)`:                            `false`,
		`params.?missing.orValue("x")`:                   `"x"`,
		`params.?missing`:                                `null`,
		`params.?day`:                                    `"2026-01-02"`,
		`timestamp(run.logical_date) + duration("36h")`:  `"2026-01-03T12:00:00Z"`,
		`duration("90s")`:                                `"90s"`,
		`b"hi"`:                                          `"aGk="`,
		`18446744073709551615u`:                          `18446744073709551615`,
		`7u`:                                             `7`,
		`type(1)`:                                        `"int"`,
		`{1: "a", true: [2]}`:                            `{"1":"a","true":[2]}`,
		`[1, 2] + [3]`:                                   `[1,2,3]`,
		`[dyn(timestamp("2026-01-01T00:00:00Z"))] + [1]`: `["2026-01-01T00:00:00Z",1]`,
		`[3, 1, 2].sort()`:                               `[1,2,3]`,
		`tasks.extract.output.sortBy(r, -r.id).map(r, r.id)`: `[3,2,1]`,
		`[1, 1.0, 2u, 2, "a", "a", [1], [1]].distinct()`:     `[1,2,"a",[1]]`,
		`"a-b-c".replace("-", "+")`:                          `"a+b+c"`,
		`"a-b-c".replace("-", "+", 1)`:                       `"a+b-c"`,
		`["", "a", ""].join(",")`:                            `",a,"`,
		`["a", "b"].join()`:                                  `"ab"`,
		`"%s is %d".format(["x", 2])`:                        `"x is 2"`,
		`json.encode({"b": [1, "<"], "a": null})`:            `"{\"a\":null,\"b\":[1,\"<\"]}"`,
		`base64.encode(b"hi")`:                               `"aGk="`,
		`sets.contains([1, 2, 3], [2])`:                      `true`,
		`sets.equivalent([1, 2], [2, 1, 1])`:                 `true`,
		`sets.intersects([1], [2])`:                          `false`,
		`math.greatest(1, 2, 3)`:                             `3`,
		`cel.bind(x, params.n, x + x)`:                       `6`,
		`lists.range(3)`:                                     `[0,1,2]`,
		`"ab12".matches("^[a-z]+[0-9]+$")`:                   `true`,
		`"ab12".matches("^[a-z]" + params.plus)`:             `true`,
		`2 in tasks.extract.output.map(r, r.id)`:             `true`,
		`[[1, [2]], [3]].flatten(5)`:                         `[1,2,3]`,
		`params.n > 2 ? "many" : "few"`:                      `"many"`,
		`[params, params] == [params, params]`:               `true`,
	} {
		t.Run(src, func(t *testing.T) {
			t.Parallel()
			p, err := expr.Compile(src)
			require.NoError(t, err)
			v, err := p.Eval(t.Context(), scope(t))
			require.NoError(t, err)
			raw, err := expr.Encode(v)
			require.NoError(t, err)
			assert.Equal(t, want, string(raw))
		})
	}
}

func TestScopeValuesPassThrough(t *testing.T) {
	t.Parallel()
	p, err := expr.Compile(`params`)
	require.NoError(t, err)
	v, err := p.Eval(t.Context(), scope(t))
	require.NoError(t, err)
	assert.Equal(t, scope(t).Params, v)
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		``:                       "the expression is empty",
		"  ":                     "the expression is empty",
		`1 +`:                    "column 4: mismatched input end of the expression",
		`foo.bar`:                "column 1: undeclared reference to 'foo'",
		`params.x + nope(1)`:     "column 16: undeclared reference to 'nope'",
		"1 +\n bar":              "line 2, column 2: undeclared reference to 'bar'",
		`1 + "a"`:                "column 3: found no matching overload for '+' applied to '(int, string)'",
		`tasks`:                  "column 1: tasks must be followed by",
		`tasks.x`:                "column 1: tasks must be followed by",
		`tasks[params.n].output`: "column 1: tasks must be followed by",
		`tasks.x.outptu`:         "a task has output and status, not outptu",
		`tasks.?x.output`:        "tasks must be followed by",
		`[1].map(tasks, tasks)`:  "a variable of a comprehension cannot be called tasks",
		`tasks.my-task.output`:   `undeclared reference to 'task' (did you mean 'tasks'?); a name with a dash is written tasks["my-task"]`,
		"[1]" + strings.Repeat(".map(x, [x, x])", 100): "at most 24 of map, filter",
		`secrets.token`:            "secrets may be used only inside a task's config",
		`secrets[params.n]`:        "secrets must be followed by a secret's name",
		`"a".matches("(")`:         "invalid matches argument",
		strings.Repeat(" ", 20000): "at most 16384 bytes",
		strings.Repeat("(", 5000):  "",
		strings.Repeat("[", 300) + strings.Repeat("]", 300): "",
	} {
		t.Run(src[:min(len(src), 40)], func(t *testing.T) {
			t.Parallel()
			_, err := expr.Compile(src)
			require.Error(t, err)
			var syntax *expr.SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.Contains(t, err.Error(), want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`params.missing`:                 "no such key: missing",
		`tasks.gone.output`:              "no such key: gone",
		`1 / (params.n - 3)`:             "division by zero",
		`params.n * params.ratio`:        "convert with double(…)",
		`params.n[0]`:                    "",
		`{1: 1, "1": 2}`:                 "two keys",
		`["a", 1].join()`:                "join takes a list of strings",
		`lists.range(1000000)`:           "",
		`"x".replace("", dyn(1))`:        "no such overload",
		`tasks.extract.output[9]`:        "index out of bounds",
		`"a".matches("(" + params.plus)`: "missing argument to repetition operator",
		`int(params.day)`:                "",
	} {
		t.Run(src, func(t *testing.T) {
			t.Parallel()
			p, err := expr.Compile(src)
			require.NoError(t, err)
			_, err = p.Eval(t.Context(), scope(t))
			require.Error(t, err)
			var eval *expr.EvalError
			require.ErrorAs(t, err, &eval)
			assert.Contains(t, err.Error(), want)
		})
	}
}

func TestTypedEval(t *testing.T) {
	t.Parallel()
	p, err := expr.Compile(`params.n`)
	require.NoError(t, err)
	_, err = p.EvalBool(t.Context(), scope(t))
	assert.EqualError(t, err, "expected true or false, the expression gave a number in `params.n`")
	_, err = p.EvalList(t.Context(), scope(t))
	assert.EqualError(t, err, "expected a list, the expression gave a number in `params.n`")
	assert.True(t, p.MayBeBool())
	assert.True(t, p.MayBeList())

	p, err = expr.Compile(`1 < 2`)
	require.NoError(t, err)
	assert.False(t, p.MayBeList())
	ok, err := p.EvalBool(t.Context(), scope(t))
	require.NoError(t, err)
	assert.True(t, ok)
}

func TestReferences(t *testing.T) {
	t.Parallel()
	p, err := expr.Compile(`size(tasks.b.output) > 0 && tasks["a-x"].status == "FAILED" && [1].exists(i, i == tasks.c.output) && has(tasks.d.output)`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a-x", "b", "c", "d"}, p.Tasks())
	assert.Empty(t, p.Secrets())
}

func TestItemOfAMappedTask(t *testing.T) {
	t.Parallel()
	s := scope(t)
	s.Item = &expr.Item{Value: decode(t, `{"id":7}`), Index: 2}
	p, err := expr.Compile(`[item.id, index] + [5].map(item, item + 1)`)
	require.NoError(t, err)
	assert.True(t, p.UsesItem())
	v, err := p.Eval(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(7), int64(2), int64(6)}, v)
	_, err = p.Eval(t.Context(), scope(t))
	assert.ErrorContains(t, err, "item")

	p, err = expr.Compile(`[5].map(item, [6].map(index, item + index))`)
	require.NoError(t, err)
	assert.False(t, p.UsesItem())

	tpl, err := expr.CompileTemplate(json.RawMessage(`{"a":"${{ index }} ${{ tasks.x.output }}"}`))
	require.NoError(t, err)
	assert.Equal(t, []expr.Ref{{Path: []any{"a"}}, {Path: []any{"a"}, Task: "x"}}, tpl.Refs())
	assert.Equal(t, []string{"x"}, tpl.Tasks())
}

// Expressions that would take hours or all memory end at once with a clear
// error.
func TestRunawayExpressionsAreStopped(t *testing.T) {
	t.Parallel()
	nest := func(n int, wrap string) string {
		s := "[dyn(1)]"
		for range n {
			s += wrap
		}
		return s
	}
	all := "[0,1,2,3,4,5,6,7,8,9]"
	loops := "0"
	for i := range 8 {
		loops = fmt.Sprintf("%s.map(x%d, %s)", all, i, loops)
	}
	for name, src := range map[string]string{
		"nested loops":        loops + " == []",
		"doubling list":       nest(23, ".map(x, [x, x])") + " == dyn([1])",
		"doubling sum":        "cel.bind(a, lists.range(1000), " + nest(0, "") + ".map(y, a)" + strings.Repeat(".map(x, x + x)", 20) + ")",
		"in a branch":         nest(23, ".map(x, params.n > 0 ? [x, x] : [x])") + " == dyn([1])",
		"replace in a branch": `["aaaaaaaaaaaaaaaa"]` + strings.Repeat(".map(x, params.n > 0 ? x.replace('', x) : x)", 12),
		"matches":             `cel.bind(s, lists.range(100000).map(i, "aaaaaaaaaa").join(), lists.range(100000).all(i, !s.matches("(a|b)*c")))`,
		"contains":            `cel.bind(s, lists.range(100000).map(i, "aaaaaaaaaa").join(), lists.range(100000).all(i, !s.contains("b")))`,
		"doubling map":        nest(23, `.map(x, {"a": x, "b": x})`) + " == dyn([1])",
		"doubling text":       `["aaaaaaaaaaaaaaaa"]` + strings.Repeat(".map(x, x + x)", 24),
		"replace":             `["aaaaaaaaaaaaaaaa"]` + strings.Repeat(".map(x, x.replace('', x))", 12),
		"join separator":      `cel.bind(s, lists.range(10000).map(i, "aaaaaaaaaa").join(), lists.range(10000).map(i, "a").join(s))`,
		"distinct lists":      `lists.range(100000).map(i, [i]).distinct()`,
		"sets":                `sets.contains(lists.range(100000), lists.range(100000))`,
		"in":                  `tasks.big.output.all(x, x in tasks.big.output)`,
		"compare":             `tasks.big.output.all(x, tasks.big.output == tasks.big.output)`,
		"json":                nest(23, ".map(x, [x, x])") + ".map(x, json.encode(x))",
		"format":              nest(23, ".map(x, [x, x])") + `.map(x, "%s".format([x]))`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := expr.Compile(src)
			require.NoError(t, err)
			s := scope(t)
			s.Tasks["big"] = expr.TaskView{Output: rows(100_000)}
			_, err = p.Eval(t.Context(), s)
			require.Error(t, err)
			assert.Contains(t, err.Error(), "too much work")
		})
	}
}

func rows(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"id": int64(i), "ok": i%2 == 0, "name": fmt.Sprint("row ", n-i)}
	}
	return list
}

func TestTenThousandElementsAreWithinTheLimit(t *testing.T) {
	t.Parallel()
	s := scope(t)
	s.Tasks["big"] = expr.TaskView{Output: rows(10_000)}
	for _, src := range []string{
		`size(tasks.big.output.filter(r, r.ok && r.name.startsWith("row") && r.id % 4 == 0)) == 2500`,
		`tasks.big.output.sortBy(r, r.name)[0].name == "row 1"`,
		`size(tasks.big.output.map(r, r.id).distinct()) == 10000`,
		`size(tasks.big.output.map(r, {"id": r.id, "label": r.name + "!"})) == 10000`,
		`tasks.big.output == tasks.big.output`,
		`9999 in tasks.big.output.map(r, r.id)`,
		`size(tasks.big.output.map(r, r.name).join(",")) > 70000`,
	} {
		p, err := expr.Compile(src)
		require.NoError(t, err, src)
		ok, err := p.EvalBool(t.Context(), s)
		require.NoError(t, err, src)
		assert.True(t, ok, src)
	}
}

func TestEvalStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := expr.Compile(`lists.range(10000).map(i, i + 1)`)
	require.NoError(t, err)
	_, err = p.Eval(ctx, scope(t))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestDecodeKeepsNumbers(t *testing.T) {
	t.Parallel()
	v := decode(t, `[1, 1.0, -0, 1e3, 9223372036854775807, 9223372036854775808, 123456789012345678901234567890]`)
	assert.Equal(t, []any{int64(1), 1.0, math.Copysign(0, -1), 1e3, int64(math.MaxInt64),
		json.Number("9223372036854775808"), json.Number("123456789012345678901234567890")}, v)
	for _, bad := range []string{``, `{`, `1 2`, `1e999`, `nope`, strings.Repeat("[", 300) + strings.Repeat("]", 300)} {
		_, err := expr.Decode(json.RawMessage(bad))
		assert.Error(t, err, bad)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	raw, err := expr.Encode(map[string]any{"b": "<&>", "a": []any{int64(1), nil, 1.5}})
	require.NoError(t, err)
	assert.Equal(t, `{"a":[1,null,1.5],"b":"<&>"}`, string(raw))
	for _, bad := range []any{math.NaN(), math.Inf(1), []any{math.NaN()}} {
		_, err := expr.Encode(bad)
		assert.ErrorContains(t, err, "cannot be written as JSON")
	}
}

func BenchmarkCompile(b *testing.B) {
	i := 0
	for b.Loop() {
		i++
		if _, err := expr.Compile(fmt.Sprintf("size(tasks.extract.output) > %d && params.day == run.logical_date", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileCached(b *testing.B) {
	for b.Loop() {
		if _, err := expr.Compile("size(tasks.extract.output) > 0"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	s := scope(b)
	s.Tasks["big"] = expr.TaskView{Output: rows(10_000)}
	for name, src := range map[string]string{
		"condition":    `size(tasks.extract.output) > 0 && params.n == 3`,
		"filter 10000": `tasks.big.output.filter(r, r.ok)`,
	} {
		b.Run(name, func(b *testing.B) {
			p, err := expr.Compile(src)
			require.NoError(b, err)
			for b.Loop() {
				if _, err := p.Eval(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestErrorsNameTheExpression: what local runs say, too (tests/test_cel.py).
func TestErrorsNameTheExpression(t *testing.T) {
	t.Parallel()
	long := "params.absent" + strings.Repeat(" + 1", 100)
	for src, want := range map[string]string{
		"params.absent +\n  1": "no such key: absent in `params.absent + 1`",
		"params.n.map(x, x)":   "no such overload: map, filter and the like are for lists and objects in `params.n.map(x, x)`",
		"params.n + 0.5":       "no such overload: numbers with and without a fraction do not mix, convert with double(…) or int(…), or a value has another type than expected in `params.n + 0.5`",
		"[1][params.n]":        "index out of bounds: 3 in `[1][params.n]`",
		long:                   "no such key: absent in `" + long[:200] + "…`",
	} {
		p, err := expr.Compile(src)
		require.NoError(t, err)
		_, err = p.Eval(t.Context(), scope(t))
		assert.EqualError(t, err, want)
	}
}
