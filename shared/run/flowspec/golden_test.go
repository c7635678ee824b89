package flowspec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// each runs a test for every file in a folder of testdata.
func each(t *testing.T, folder string, test func(t *testing.T, path string, raw []byte)) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			test(t, path, raw)
		})
	}
}

func write(t *testing.T, path string, v any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(v))
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o644))
}

func asJSON(t *testing.T, v any) string {
	raw, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(raw)
}

func TestValidSpecs(t *testing.T) {
	t.Parallel()
	each(t, "valid", func(t *testing.T, _ string, raw []byte) {
		flow, faults := flowspec.Parse(t.Context(), raw, tasktype.Kinds())
		require.Empty(t, faults)
		loaded, err := flowspec.Load(flow.Canonical(), tasktype.Kinds())
		require.NoError(t, err)
		assert.Equal(t, flow.Hash(), loaded.Hash())
		assert.JSONEq(t, string(raw), string(loaded.Canonical()))
		assert.Equal(t, flow.Order(), loaded.Order())
		for i := range loaded.Tasks {
			_, err := loaded.Tasks[i].Template()
			assert.NoError(t, err)
			assert.NotEmpty(t, loaded.Tasks[i].TriggerRule)
			assert.Positive(t, loaded.Tasks[i].TimeoutSecs)
		}
	})
}

type invalidCase struct {
	Spec   json.RawMessage `json:"spec,omitempty"`
	Raw    *string         `json:"raw,omitempty"` // if the document is not JSON
	Faults []errs.Detail   `json:"faults"`
}

func TestInvalidSpecs(t *testing.T) {
	t.Parallel()
	each(t, "invalid", func(t *testing.T, path string, raw []byte) {
		var c invalidCase
		require.NoError(t, json.Unmarshal(raw, &c))
		spec := []byte(c.Spec)
		if c.Raw != nil {
			spec = []byte(*c.Raw)
		}
		flow, faults := flowspec.Parse(t.Context(), spec, tasktype.Kinds())
		require.Nil(t, flow)
		require.NotEmpty(t, faults)
		if *update {
			c.Faults = faults
			write(t, path, c)
			return
		}
		assert.Equal(t, asJSON(t, c.Faults), asJSON(t, faults))
	})
}

type paramsCase struct {
	Schema   json.RawMessage            `json:"parameters"`
	Params   map[string]json.RawMessage `json:"params"`
	Injected []string                   `json:"injected"`
	Result   map[string]json.RawMessage `json:"result,omitempty"`
	Faults   []errs.Detail              `json:"faults,omitempty"`
}

func TestParams(t *testing.T) {
	t.Parallel()
	each(t, "params", func(t *testing.T, path string, raw []byte) {
		var c paramsCase
		require.NoError(t, json.Unmarshal(raw, &c))
		flow := withSchema(t, c.Schema)
		result, faults := flow.CheckParams(t.Context(), c.Params, func(key string) bool { return slices.Contains(c.Injected, key) })
		require.True(t, (result == nil) == (len(faults) > 0))
		if *update {
			c.Result, c.Faults = result, faults
			write(t, path, c)
			return
		}
		assert.Equal(t, asJSON(t, c.Faults), asJSON(t, faults))
		assert.Equal(t, asJSON(t, c.Result), asJSON(t, result))
	})
}

func withSchema(t testing.TB, schema json.RawMessage) *flowspec.Flow {
	raw, err := json.Marshal(map[string]any{
		"parameters": schema,
		"tasks":      []any{map[string]any{"name": "a", "type": "python", "entrypoint": "f:a"}},
	})
	require.NoError(t, err)
	flow, faults := flowspec.Parse(t.Context(), raw, tasktype.Kinds())
	require.Empty(t, faults)
	return flow
}
