package flowspec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/budget"
	"millrace/shared/run/expr"
)

// applied compiles a schema, applies it to a value, and returns the steps of
// each.
func applied(t testing.TB, schema, value any) (compiling, applying int64, err error) {
	raw, err := json.Marshal(schema)
	require.NoError(t, err)
	b, end := budget.New(t.Context(), registering)
	s, err := compileSchema(b, raw)
	end()
	if err != nil {
		return b.Used().Steps, 0, err
	}
	raw, err = json.Marshal(value)
	require.NoError(t, err)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	depth, err := checkNumbers(v, 0)
	require.NoError(t, err)
	c, end := budget.New(t.Context(), checking)
	defer end()
	err = s.meter.validate(t.Context(), c, s.compiled, v, depth)
	return b.Used().Steps, c.Used().Steps, err
}

type object = map[string]any

// kindsOfTests are task kinds whose configs are not checked.
var kindsOfTests = Kinds{
	"wait":      {Name: "wait", MaxTimeoutSecs: MaxFlowTimeout},
	"transform": {Name: "transform", MaxTimeoutSecs: MaxFlowTimeout, Expressions: []string{"expression"}},
}

func list(n int, f func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func fields(n int, f func(i int) any) object {
	out := object{}
	for i := range n {
		out[fmt.Sprint("k", i)] = f(i)
	}
	return out
}

// Applying a schema costs steps in proportion to the library's work, or is
// stopped.
func TestApplyingASchemaIsCharged(t *testing.T) {
	t.Parallel()
	ints := list(20_000, func(i int) any { return i })
	wide := fields(5_000, func(int) any { return 1 })
	for name, c := range map[string]struct {
		schema object
		value  any
		least  int64 // minimum steps, if it is not stopped
	}{
		"alternatives":    {object{"pattern": strings.Repeat("(.*)N|", 150) + "x"}, strings.Repeat("a", 250_000), 0},
		"repetition":      {object{"pattern": "^(x?){300}$"}, strings.Repeat("x", 250_000), 0},
		"property names":  {object{"patternProperties": fields(900, func(int) any { return object{} })}, wide, 0},
		"enum":            {object{"items": object{"enum": list(9_000, func(i int) any { return []any{i} })}}, list(20_000, func(i int) any { return []any{-i - 1} }), 200_000},
		"const":           {object{"items": object{"const": ints[:1000]}}, list(200, func(int) any { return ints[:1000] }), 400_000},
		"unique":          {object{"uniqueItems": true}, list(20_000, func(i int) any { return []any{i} }), 100_000},
		"unique collides": {object{"uniqueItems": true}, collisions(12), 40_000},
		"items":           {object{"allOf": list(1_000, func(int) any { return object{"items": object{"type": "string"}} })}, ints, 0},
		"false":           {object{"allOf": list(1_000, func(int) any { return object{"items": false} })}, ints, 0},
		"any of false":    {object{"items": object{"anyOf": list(1_000, func(int) any { return false })}}, ints, 0},
		"required":        {object{"items": object{"required": list(9_000, func(i int) any { return fmt.Sprint(i) })}}, list(20_000, func(int) any { return object{} }), 0},
		"digits":          {object{"items": object{"allOf": list(900, func(int) any { return object{"multipleOf": json.Number("1e-300")} })}}, list(1_000, func(int) any { return json.Number("1" + strings.Repeat("3", 240)) }), 0},
		"dynamic":         {object{"$dynamicAnchor": "n", "items": object{"$dynamicRef": "#n"}}, nested(190), 30_000},
		"unevaluated":     {object{"allOf": list(900, func(i int) any { return object{"properties": object{fmt.Sprint("k", i): true}} }), "unevaluatedProperties": false}, wide, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, steps, err := applied(t, c.schema, c.value)
			if c.least > 0 {
				_, used := errors.AsType[*budget.Exceeded](err)
				assert.False(t, used, err)
				assert.GreaterOrEqual(t, steps, c.least)
				return
			}
			_, used := errors.AsType[*budget.Exceeded](err)
			assert.True(t, used, "%v after %d steps", err, steps)
		})
	}
}

func nested(n int) any {
	v := []any{}
	for range n {
		v = []any{v}
	}
	return v
}

// collisions returns 2^n lists of texts that differ only in where they are
// split.
func collisions(n int) []any {
	return list(1<<n, func(i int) any {
		item := []any{""}
		for bit := range n {
			if i>>bit&1 == 0 {
				item[len(item)-1] = item[len(item)-1].(string) + "\x04"
			} else {
				item = append(item, "")
			}
		}
		return item
	})
}

func TestCompilingASchemaIsBounded(t *testing.T) {
	t.Parallel()
	for want, schema := range map[string]object{
		"at most 262144 bytes":                 {"title": strings.Repeat("x", 300<<10)},
		"at most 20000 values":                 {"enum": list(20_000, func(i int) any { return i })},
		"at most 3000 objects and booleans":    {"properties": fields(3_000, func(int) any { return object{"type": "string"} })},
		"at most 1000 patterns":                {"patternProperties": fields(1_001, func(int) any { return true })},
		"does too much work; at most 16000000": {"$defs": fields(1_400, func(i int) any { return object{"$id": fmt.Sprint("http://x/", i), "$ref": "http://x/0"} }), "properties": fields(1_400, func(int) any { return object{} })},
	} {
		_, _, err := applied(t, schema, 1)
		assert.ErrorContains(t, err, want)
	}
}

func TestDefaultsAreBounded(t *testing.T) {
	t.Parallel()
	// Each level is as large as all below it; none alone is too large.
	deep := object{"type": "object", "properties": object{}}
	for range 20 {
		deep = object{"properties": object{"a": deep, "b": object{"default": strings.Repeat("x", 1000)}}, "default": object{}}
	}
	raw, err := json.Marshal(object{"parameters": object{"properties": object{"x": deep}}, "tasks": []any{object{"name": "a", "type": "wait", "config": object{"seconds": 1}}}})
	require.NoError(t, err)
	flow, faults := Parse(t.Context(), raw, kindsOfTests)
	require.Empty(t, faults)
	got, faults := flow.CheckParams(t.Context(), map[string]json.RawMessage{"x": json.RawMessage(`{}`)}, nil)
	require.Empty(t, faults)
	assert.Greater(t, len(got["x"]), 20_000)

	// A schema registered before this check existed is stopped when it is used.
	props := fields(8, func(int) any { return object{"$ref": "#/$defs/a"} })
	raw, err = expr.Encode(object{
		"parameters": object{"properties": object{"x": object{"$ref": "#/$defs/a"}}, "$defs": object{"a": object{"default": object{}, "properties": props}}},
		"tasks":      []any{object{"name": "a", "type": "wait", "config": object{"seconds": int64(1)}}},
	})
	require.NoError(t, err)
	flow, err = Load(raw, kindsOfTests)
	require.NoError(t, err)
	_, faults = flow.CheckParams(t.Context(), map[string]json.RawMessage{"x": json.RawMessage(`{}`)}, nil)
	require.Len(t, faults, 1)
	assert.Equal(t, paramsLoc, faults[0].Loc)
	assert.Contains(t, faults[0].Msg, "too much work; at most 2000000 steps")
}

func TestCheckEndsWithContext(t *testing.T) {
	t.Parallel()
	flow, faults := Parse(t.Context(), json.RawMessage(`{"parameters":{"properties":{"x":{"default":1}}},"tasks":[{"name":"a","type":"wait","config":{"seconds":1}}]}`), kindsOfTests)
	require.Empty(t, faults)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, faults = flow.CheckParams(ctx, nil, nil)
	assert.Len(t, faults, 1)
	require.ErrorIs(t, flow.CheckDefaults(ctx, nil), context.Canceled)
	_, faults = Parse(ctx, flow.Canonical(), kindsOfTests)
	assert.Len(t, faults, 1)

	// A check that waits for another one of the same schema is cancelled, too.
	s, err := flow.schema(budget.Unlimited())
	require.NoError(t, err)
	s.meter.turn <- struct{}{}
	require.ErrorIs(t, s.meter.validate(ctx, budget.Unlimited(), s.compiled, object{}, 0), context.Canceled)
}

// All compiling for a flow_spec shares one budget.
func TestRegistrationHasOneBudget(t *testing.T) {
	t.Parallel()
	task := func(i int) any {
		s := "1"
		for m := range 24 {
			s = fmt.Sprintf("[%d].map(x%d, %s)", i, m, s)
		}
		return object{"name": fmt.Sprint("t", i), "type": "transform", "config": object{"expression": s}}
	}
	raw, err := json.Marshal(object{"tasks": list(3_000, task)})
	require.NoError(t, err)
	b := budget.Limits{Steps: registering.Steps / 20, Bytes: registering.Bytes}
	flow, faults := parseWithin(t.Context(), b, raw, kindsOfTests)
	require.Nil(t, flow)
	require.Len(t, faults, 1)
	assert.Equal(t, "tasks", faults[0].Loc[2])
	assert.Positive(t, faults[0].Loc[3])
	assert.Contains(t, faults[0].Msg, "does too much work; at most 800000 steps are allowed in all: make them fewer, shorter or less nested")
}

// A panic of the library is an error in the schema.
func TestLibraryPanicIsSchemaError(t *testing.T) {
	t.Parallel()
	b, end := budget.New(t.Context(), checking)
	defer end()
	err := b.Do("test", func() error { panic("x") })
	assert.Equal(t, "it cannot be processed", schemaProblem(err))
	assert.Equal(t, "the parameters cannot be processed", tooMuch(err).Msg)
}

// TestConcurrentChecksOfSchema checks that concurrent checks of one schema,
// each of which takes a turn while it fills in defaults, do not hold a turn
// that another one needs.
func TestConcurrentChecksOfSchema(t *testing.T) {
	t.Parallel()
	integer := object{"type": "integer"}
	numbers := object{"default": list(15_000, func(int) any { return 0 }), "items": object{"allOf": []any{integer, integer, integer}}}
	raw, err := json.Marshal(object{
		"parameters": object{"properties": object{"x": numbers}},
		"tasks":      []any{object{"name": "a", "type": "wait", "config": object{"seconds": 1}}},
	})
	require.NoError(t, err)
	flow, faults := Parse(t.Context(), raw, kindsOfTests)
	require.Empty(t, faults)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			_, faults := flow.CheckParams(ctx, nil, nil)
			assert.Empty(t, faults)
		})
	}
	all.Wait()
}
