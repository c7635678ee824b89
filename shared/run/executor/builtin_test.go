package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
)

func transform(expression string) string {
	raw, _ := json.Marshal(expression)
	return `{"name":"t","type":"transform","depends_on":["up"],"config":{"expression":` + string(raw) + `}}`
}

func TestTransform(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`tasks.up.output.map(x, x * 2)`:       `[2,4]`,
		`{"day": params.day, "n": 1.5}`:       `{"day":"monday","n":1.5}`,
		`tasks.up.status`:                     `"SUCCEEDED"`,
		`{"item": item.name, "index": index}`: `{"index":3,"item":"x"}`,
		`null`:                                `null`,
	} {
		a, _ := attempt(t, transform(expression))
		a.MapIndex, a.Item = index(3), json.RawMessage(`{"name":"x"}`)
		r := executor.Transform{}.Execute(t.Context(), a)
		require.Nil(t, r.Failure, expression)
		assert.JSONEq(t, want, string(r.Output.JSON), expression)
		assert.EqualValues(t, len(r.Output.JSON), r.Output.Size)
	}
	for _, expression := range []string{`params.none`, `1 / 0`, `item`, `1 +`, `tasks.up.output[9]`, `secrets.token`, ``} {
		a, _ := attempt(t, transform(expression))
		r := executor.Transform{}.Execute(t.Context(), a)
		require.NotNil(t, r.Failure, expression)
		assert.Equal(t, executor.Expression, r.Failure.Type)
		assert.True(t, r.Failure.Final, "%s: no retry mends it", expression)
		assert.Contains(t, r.Failure.Message, "config.expression: ")
	}
	a, _ := attempt(t, transform("tasks.up.output"))
	a.Scope = func(context.Context, []string) (expr.Scope, error) {
		return expr.Scope{}, errors.New("table: throttled")
	}
	r := executor.Transform{}.Execute(t.Context(), a)
	require.NotNil(t, r.Failure)
	assert.False(t, r.Failure.Final, "the store may answer next time")
	a, _ = attempt(t, transform("item"))
	a.MapIndex, a.Item = index(0), json.RawMessage(`{`)
	assert.NotNil(t, executor.Transform{}.Execute(t.Context(), a).Failure)
	assert.True(t, executor.Transform{}.Instant() && executor.Wait{}.Instant())
}

func TestWait(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	now := start
	w := executor.Wait{Now: func() time.Time { return now }}
	for config, want := range map[string]time.Duration{
		`60`: time.Minute, `0.5`: time.Second / 2, `"${{ size(tasks.up.output) }}"`: 2 * time.Second, `31622400`: 366 * 24 * time.Hour,
		`"${{ index }}"`: 3 * time.Second,
	} {
		a, _ := attempt(t, `{"name":"w","type":"wait","depends_on":["up"],"config":{"seconds":`+config+`}}`)
		a.Started, a.MapIndex, a.Item = start, index(3), json.RawMessage("1")
		now = start
		r := w.Execute(t.Context(), a)
		require.Nil(t, r.Failure)
		assert.Equal(t, start.Add(want), r.Until, config)
		now, a.Resumed = r.Until.Add(-time.Millisecond), true
		assert.Equal(t, start.Add(want), w.Execute(t.Context(), a).Until, "woken early, it sleeps on")
		now = start.Add(want)
		r = w.Execute(t.Context(), a)
		assert.True(t, r.Until.IsZero())
		assert.Contains(t, string(r.Output.JSON), `{"waited_seconds":`)
	}
	a, _ := attempt(t, `{"name":"w","type":"wait","config":{"seconds":0}}`)
	a.Started = now
	r := w.Execute(t.Context(), a)
	assert.Nil(t, r.Failure)
	assert.True(t, r.Until.IsZero(), "no time to wait")
	for _, config := range []string{`-1`, `31622401`, `1e300`, `"ten"`, `null`, `"${{ [1] }}"`, `"${{ 1.0 / 0.0 }}"`, `12345678901234567890123`, `"${{ secrets.token }}"`} {
		a, _ := attempt(t, `{"name":"w","type":"wait","config":{"seconds":`+config+`}}`)
		r := w.Execute(t.Context(), a)
		require.NotNil(t, r.Failure, config)
		assert.True(t, r.Failure.Final, config)
		assert.NotContains(t, r.Failure.Message, secret)
	}
}
