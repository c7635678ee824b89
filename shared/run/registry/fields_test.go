package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

func TestParameters(t *testing.T) {
	t.Parallel()
	loc := errs.Body("parameters")
	text := func(bytes int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", bytes-2) + `"`) }
	for name, c := range map[string]struct {
		params map[string]json.RawMessage
		want   [][]any // locations, in order
	}{
		"none":          {nil, nil},
		"near the word": {map[string]json.RawMessage{"__svc": text(2), "x__svc_": text(2), "__SVC_a": text(2)}, nil},
		"reserved": {
			map[string]json.RawMessage{"__svc_b": text(2), "ok": text(2), "__svc_": text(2), "__svc_a": text(2)},
			[][]any{{"body", "parameters", "__svc_"}, {"body", "parameters", "__svc_a"}, {"body", "parameters", "__svc_b"}},
		},
		"at the limit":   {map[string]json.RawMessage{"k": text(registry.MaxParameterBytes - 5)}, nil},
		"over the limit": {map[string]json.RawMessage{"k": text(registry.MaxParameterBytes - 4)}, [][]any{{"body", "parameters"}}},
		"both": {
			map[string]json.RawMessage{"__svc_a": text(registry.MaxParameterBytes)},
			[][]any{{"body", "parameters", "__svc_a"}, {"body", "parameters"}},
		},
	} {
		var places [][]any
		for _, fault := range registry.CheckParameters(loc, c.params) {
			places = append(places, fault.Loc)
			assert.Equal(t, "value_error", fault.Type, name)
		}
		assert.Equal(t, c.want, places, name)
	}
}
