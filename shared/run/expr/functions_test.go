package expr

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFunctions(t *testing.T) {
	t.Parallel()
	list, err := Functions()
	require.NoError(t, err)
	forms := map[string][]string{}
	for _, f := range list {
		assert.Regexp(t, `^[a-zA-Z][a-zA-Z0-9.]*$`, f.Name)
		assert.NotEmpty(t, f.Forms, f.Name)
		forms[f.Name] = f.Forms
	}
	assert.Contains(t, forms["size"], "string.size() -> int")
	assert.Contains(t, forms["timestamp"], "timestamp(string) -> timestamp")
	assert.Contains(t, forms, "math.abs")

	macros, err := Macros()
	require.NoError(t, err)
	for name, source := range map[string]string{
		"all": "[1].all(x, x > 0)", "exists": "[1].exists(x, x > 0)", "exists_one": "[1].exists_one(x, x > 0)", "filter": "[1].filter(x, x > 0)",
		"map": "[1].map(x, x)", "has": "has(params.a)", "cel.bind": "cel.bind(x, 1, x)", "math.least": "math.least(1, 2)", "math.greatest": "math.greatest(1, 2)",
		"optMap": "params.?a.optMap(x, x)", "optFlatMap": "params.?a.optFlatMap(x, optional.of(x))", "sortBy": "[1].sortBy(x, x)",
	} {
		assert.Contains(t, macros, name)
		macros = slices.DeleteFunc(macros, func(m string) bool { return m == name })
		_, err := Compile(source)
		assert.NoError(t, err, source)
	}
	assert.Empty(t, macros, "not tried")
}
