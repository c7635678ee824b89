package catalog

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/web/httpapi"
)

// TestDescriptionIsThatOfTheGoldenFile keeps the published description, which
// make contract checks, in the repository, so that changes of the interface are
// visible.
func TestDescriptionIsThatOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	data, err := API(All(), httpapi.Config{Title: "Millrace", Version: "1"}).JSON()
	require.NoError(t, err)
	var doc any
	require.NoError(t, json.Unmarshal(data, &doc))
	pretty, err := json.MarshalIndent(doc, "", " ")
	require.NoError(t, err)
	golden(t, filepath.Join("testdata", "openapi.json"), func(string) string { return string(pretty) + "\n" })
}

type described struct {
	Security    []map[string][]string
	RequestBody struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
			Example json.RawMessage
		}
	}
	Responses map[string]any
}

// description is the part of the published description that tests read.
type description struct {
	Paths      map[string]map[string]described
	Components struct {
		Schemas map[string]struct{ Properties map[string]any }
	}
}

func describe(t *testing.T) description {
	t.Helper()
	data, err := API(All(), httpapi.Config{}).JSON()
	require.NoError(t, err)
	var doc description
	require.NoError(t, json.Unmarshal(data, &doc))
	return doc
}

func TestEveryBodyIsDescribedWithAnExample(t *testing.T) {
	t.Parallel()
	doc := describe(t)
	examples := 0
	for _, op := range Public(Operations(All())) {
		shown, found := doc.Paths[op.Path][strings.ToLower(op.Method)]
		require.True(t, found, op.ID)
		assert.NotNil(t, shown.Security, "%s says nothing about credentials", op.ID)
		for kind, content := range shown.RequestBody.Content {
			schema := strings.TrimPrefix(content.Schema.Ref, "#/components/schemas/")
			if kind != "application/json" || len(doc.Components.Schemas[schema].Properties) == 0 {
				continue
			}
			examples++
			assert.NotEmpty(t, content.Example, "%s: give the fields of %s example tags, or the operation an Example", op.ID, schema)
		}
	}
	assert.Greater(t, examples, 10)
}

// TestRuntimesAreRefusedAsDescribed checks that the operations whose bodies name
// a runtime describe the answer to one that is not supported.
func TestRuntimesAreRefusedAsDescribed(t *testing.T) {
	t.Parallel()
	doc := describe(t)
	found := 0
	for _, op := range Public(Operations(All())) {
		shown := doc.Paths[op.Path][strings.ToLower(op.Method)]
		properties := doc.Components.Schemas[strings.TrimPrefix(shown.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")].Properties
		if properties["execution_mode"] != nil || properties["default_executor"] != nil {
			found++
			assert.Contains(t, shown.Responses, "400", op.ID)
		}
	}
	assert.Greater(t, found, 4)
}
