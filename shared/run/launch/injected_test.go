package launch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/fixture"
	"millrace/shared/platform/errs"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
)

// TestInjectedParameters gives flows whose schemas allow no others the parameters
// that the service injects: by the service they pass, by a caller they are checked
// as any other.
func TestInjectedParameters(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	for name, properties := range map[string]string{
		"none":    `{"day":{"type":"string"}}`,
		"ds":      `{"day":{"type":"string"},"ds":{"type":"string","maxLength":10}}`,
		"default": `{"ds":{"type":"string","default":"today","maxLength":10}}`,
	} {
		require.NoError(t, fixture.Register(k.ctx, k.store, k.objects, name,
			`{"parameters":{"type":"object","properties":`+properties+`,"additionalProperties":false},"tasks":[{"name":"a","type":"python","entrypoint":"m:f"}]}`))
	}
	all := map[string]string{
		"data_interval_start": `"2026-03-29T01:30:00+00:00"`, "logical_date": `"2026-03-29T01:30:00+00:00"`, "ds": `"2026-03-29"`,
		"objstore_bucket": `"landing"`, "objstore_key": `"in/orders.csv"`,
	}
	type values = map[string]string
	unknown := func(key string) []any { return []any{"extra_forbidden", key} }
	for name, c := range map[string]struct {
		flow            string
		injected, given values
		want            values
		refused         []any // type and parameter of the fault
	}{
		"injected":                           {"none", all, nil, all, nil},
		"injected, whatever the schema says": {"ds", values{"ds": `20260329`}, nil, values{"ds": `20260329`}, nil},
		"injected, over a default":           {"default", values{"ds": `"2026-03-29"`}, nil, values{"ds": `"2026-03-29"`}, nil},
		"given, and unknown":                 {"none", nil, values{"ds": `"x"`}, nil, unknown("ds")},
		"given and injected, and unknown":    {"none", all, values{"objstore_key": `"mine"`}, nil, unknown("objstore_key")},
		"given and injected, and wrong":      {"ds", all, values{"ds": `"yesterday at noon"`}, nil, []any{"value_error", "ds"}},
		"given wins over injected":           {"ds", values{"ds": `"2026-03-29"`}, values{"ds": `"mine"`}, values{"ds": `"mine"`}, nil},
		"another unknown beside injected":    {"none", all, values{"dya": `"x"`}, nil, unknown("dya")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := k.launcher(k.store).Accept(k.ctx, org, launch.Request{
				Flow: c.flow, Version: "1", Trigger: launch.Manual, Injected: raw(c.injected), Parameters: raw(c.given),
			})
			if c.refused != nil {
				bad, ok := errors.AsType[*errs.Error](err)
				require.True(t, ok, "%v", err)
				require.Len(t, bad.Details, 1)
				at := bad.Details[0].Loc
				assert.Equal(t, c.refused, []any{bad.Details[0].Type, at[len(at)-1]})
				return
			}
			require.NoError(t, err)
			input, err := runstate.LoadInput(k.ctx, k.store, k.objects, org, run.ID)
			require.NoError(t, err)
			assert.Equal(t, raw(c.want), input.Parameters)
		})
	}
}

func raw(values map[string]string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for key, value := range values {
		out[key] = json.RawMessage(value)
	}
	return out
}

// TestOfferedParameters gives flows the fields of an event: those that a flow does
// not know are dropped if its schema says that there are no others, before their
// size counts.
func TestOfferedParameters(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	const task = `"tasks":[{"name":"a","type":"python","entrypoint":"m:f"}]}`
	for name, schema := range map[string]string{
		"signature": `{"parameters":{"type":"object","properties":{"day":{"type":"string"},"n":{"type":"integer","default":1}},"additionalProperties":false},`,
		"pattern":   `{"parameters":{"type":"object","patternProperties":{"^x":{"type":"string"}},"additionalProperties":false},`,
		"open":      `{"parameters":{"type":"object","properties":{"day":{"type":"string"}}},`,
		"none":      `{`,
	} {
		require.NoError(t, fixture.Register(k.ctx, k.store, k.objects, name, schema+task))
	}
	type values = map[string]string
	large := `"` + strings.Repeat("x", 300_000) + `"`
	for name, c := range map[string]struct {
		flow           string
		given, offered values
		want           values // nil: refused
	}{
		"known":                        {"signature", nil, values{"day": `"1"`}, values{"day": `"1"`, "n": `1`}},
		"unknown":                      {"signature", nil, values{"day": `"1"`, "sender": large}, values{"day": `"1"`, "n": `1`}},
		"over the given":               {"signature", values{"day": `"1"`, "n": `2`}, values{"day": `"2"`}, values{"day": `"2"`, "n": `2`}},
		"wrong":                        {"signature", nil, values{"day": `1`}, nil},
		"given and unknown":            {"signature", values{"sender": `1`}, nil, nil},
		"unknown of a pattern":         {"pattern", nil, values{"sender": `1`}, nil},
		"unknown of an open schema":    {"open", nil, values{"sender": `1`}, values{"sender": `1`}},
		"unknown without a schema":     {"none", nil, values{"sender": `1`}, values{"sender": `1`}},
		"large":                        {"none", nil, values{"sender": large}, nil},
		"reserved":                     {"none", nil, values{"__svc_x": `1`}, nil},
		"reserved, of a closed schema": {"signature", nil, values{"__svc_x": `1`}, values{"n": `1`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := k.launcher(k.store).Accept(k.ctx, org, launch.Request{
				Flow: c.flow, Version: "1", Trigger: launch.Sensor, Parameters: raw(c.given), Offered: raw(c.offered),
			})
			if c.want == nil {
				require.Equal(t, errs.Unprocessable, errs.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			input, err := runstate.LoadInput(k.ctx, k.store, k.objects, org, run.ID)
			require.NoError(t, err)
			assert.Equal(t, raw(c.want), input.Parameters)
		})
	}
}
