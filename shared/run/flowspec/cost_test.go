package flowspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/budget/budgettest"
	"millrace/shared/run/expr"
)

// Applying a schema and its defaults is charged for any value, and the metered
// schema accepts the same values as the library's.
func FuzzSchemaCost(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"properties":{"a":{"type":"integer","minimum":1},"b":{"enum":[1,"x",[1.0]]}},"required":["a"],"additionalProperties":false}`, `{"a":1.0,"b":[1]}`},
		{`{"$defs":{"a":{"default":{},"properties":{"p":{"$ref":"#/$defs/a"},"q":{"$ref":"#/$defs/a"}}}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, `{"x":{}}`},
		{`{"items":{"pattern":"(a|b)*c{0,100}"},"uniqueItems":true,"contains":{"const":"a"}}`, `["a","aa","` + strings.Repeat("ab", 500) + `"]`},
		{`{"allOf":[{"items":{"type":"string"}},{"items":false},{"patternProperties":{"^k":true}}],"unevaluatedProperties":false}`, `[1,2,3]`},
		{`{"$dynamicAnchor":"n","properties":{"c":{"$dynamicRef":"#n"}},"not":{"required":["x"]}}`, `{"c":{"c":{"x":1}}}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]},"propertyNames":{"maxLength":3},"items":[{"format":"date"}]}`, `{"a":1,"long name":2}`},
		{`{"if":{"type":"number"},"then":{"multipleOf":1e-300},"else":{"minLength":2}}`, `1e300`},
		{`{"oneOf":[{"type":["null","integer"]},{"const":1e0},{"$ref":"#"}]}`, `1.0`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Add([]byte(`{"items":{"enum":[[0]`+strings.Repeat(",[0]", 2_500)+`]}}`), []byte(`[[1]`+strings.Repeat(",[1]", 10_000)+`]`))
	f.Fuzz(func(t *testing.T, document, value []byte) {
		if len(document) > maxSchemaBytes || len(value) > 256<<10 {
			return
		}
		tree, err := expr.Decode(document) // decoded like a flow_spec
		if err != nil {
			return
		}
		document, err = expr.Encode(tree)
		if err != nil {
			return
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		if err != nil {
			return
		}
		depth, err := checkNumbers(v, 0)
		if err != nil {
			return
		}
		b, end := budget.New(t.Context(), registering)
		var s *schema
		budgettest.Covered(t, b, func() { s, err = compileSchema(b, document) })
		end()
		if err != nil || s.root == nil {
			return
		}
		b, end = budget.New(t.Context(), checking)
		defer end()
		budgettest.Covered(t, b, func() { err = s.meter.validate(t.Context(), b, s.compiled, v, depth) })
		invalid, isInvalid := errors.AsType[*jsonschema.ValidationError](err)
		if err != nil && !isInvalid {
			return
		}
		if b.Used().Steps < 10_000 {
			want := plain(t, s.root).Validate(v)
			assert.Equal(t, want == nil, err == nil, "%v with the meter, %v without", err, want)
		}
		if isInvalid {
			_, err := json.Marshal(violations(paramsLoc, invalid, v))
			require.NoError(t, err)
		}
		if object, ok := v.(map[string]any); ok && checkDefaults(s.root) == nil {
			budgettest.Covered(t, b, func() { _, err = applyDefaults(b, s.root, s.root, object, 0) })
		}
	})
}

// plain compiles a schema with the library only.
func plain(t *testing.T, root map[string]any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refusingLoader{})
	require.NoError(t, c.AddResource(schemaURL, root))
	s, err := c.Compile(schemaURL)
	require.NoError(t, err)
	return s
}
