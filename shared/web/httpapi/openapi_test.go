package httpapi_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
	"millrace/shared/web/httpapi/testdata/other"
)

func TestDescriptionMatchesGoldenFiles(t *testing.T) {
	t.Parallel()
	a := fixture(t, nil)
	for file, make := range map[string]func() ([]byte, error){"testdata/openapi31.json": a.JSON, "testdata/openapi30.json": a.JSON30} {
		got, err := make()
		require.NoError(t, err)
		var doc any
		require.NoError(t, json.Unmarshal(got, &doc))
		if *update {
			pretty, err := json.MarshalIndent(doc, "", "  ")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, append(pretty, '\n'), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.JSONEq(t, string(want), string(got))
		assertReferences(t, doc, doc)
	}
}

// assertReferences follows every $ref of a document.
func assertReferences(t *testing.T, doc, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			assertReferences(t, doc, e)
		}
	case map[string]any:
		for k, e := range v {
			ref, isRef := e.(string)
			if k != "$ref" || !isRef {
				assertReferences(t, doc, e)
				continue
			}
			at := doc
			for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
				m, _ := at.(map[string]any)
				at = m[part]
			}
			assert.NotNil(t, at, ref)
		}
	}
}

func TestHiddenOperationsAreNotDescribed(t *testing.T) {
	t.Parallel()
	a := fixture(t, nil)
	data, err := a.JSON()
	require.NoError(t, err)
	assert.Nil(t, a.OpenAPI().Paths["/decide"])
	assert.NotContains(t, string(data), "DecideRequest", "a schema that nothing described refers to")
	// Publishing does not modify the description: the body is still required.
	assert.True(t, a.OpenAPI().Paths["/things"].Post.RequestBody.Required)
	assert.Contains(t, a.OpenAPI().Components.Schemas.Map(), "DecideRequest")
}

func TestDescriptionNamesServer(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"": "/", "https://api.test/v1": "https://api.test/v1"} {
		data, err := fixture(t, func(c *httpapi.Config) { c.URL = url }).JSON()
		require.NoError(t, err)
		var doc struct{ Servers []struct{ URL string } }
		require.NoError(t, json.Unmarshal(data, &doc))
		require.Len(t, doc.Servers, 1)
		assert.Equal(t, want, doc.Servers[0].URL)
	}
}

func TestSchemaNamesOfTwoDomains(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{})
	type input struct{ Body createBody }
	register := func(id string, register func(httpapi.Operation)) {
		register(httpapi.Operation{ID: id, Method: "POST", Path: "/" + id, Access: tenant.Public})
	}
	register("mine", func(op httpapi.Operation) {
		httpapi.Register(a, op, func(context.Context, *input) (httpapi.None, error) { return httpapi.None{}, nil })
	})
	register("theirs", func(op httpapi.Operation) { other.Register(a, op) })
	register("anonymous-one", func(op httpapi.Operation) {
		httpapi.Register(a, op, func(context.Context, *struct{ Body struct{ A int } }) (httpapi.None, error) {
			return httpapi.None{}, nil
		})
	})
	register("anonymous-two", func(op httpapi.Operation) {
		httpapi.Register(a, op, func(context.Context, *struct{ Body struct{ B int } }) (httpapi.None, error) {
			return httpapi.None{}, nil
		})
	})
	register("list-mine", func(op httpapi.Operation) {
		httpapi.Register(a, op, func(context.Context, *httpapi.None) (httpapi.Page[createBody], error) {
			return httpapi.Page[createBody]{}, nil
		})
	})
	schemas := a.OpenAPI().Components.Schemas.Map()
	for name, property := range map[string]string{
		"HttpapiTestCreateBody": "name", "OtherCreateBody": "theirs", "Error": "detail",
		"AnonymousOneRequest": "A", "AnonymousTwoRequest": "B", "PageCreateBody": "items",
	} {
		if assert.Contains(t, schemas, name) {
			assert.Contains(t, schemas[name].Properties, property)
		}
	}
}
