package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
	"millrace/shared/web/httpapi/testdata/other"
)

func TestVersion1_OpenAPI(t *testing.T) {
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

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	a := fixture(t, nil)
	want, err := a.JSON()
	require.NoError(t, err)
	for range 2 {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, request(t, "GET", "/openapi.json", "", ""))
		assert.Equal(t, 200, w.Code)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		assert.Equal(t, string(want), w.Body.String())
	}
	// Serving leaves a described body required, and the description unchanged.
	assert.True(t, a.OpenAPI().Paths["/things"].Post.RequestBody.Required)
	assert.Nil(t, a.OpenAPI().Paths["/decide"], "hidden")
}

func TestNamesOfTwoDomains(t *testing.T) {
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

func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	h := fixture(t, nil).Handler()
	get := func(path, encoding string) *httptest.ResponseRecorder {
		r := request(t, "GET", path, "", "")
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code, path)
		return w
	}
	page := get("/docs", "")
	assert.NotContains(t, page.Body.String(), "//", "no address of another host")
	assert.NotContains(t, page.Body.String(), "{{")
	policy := page.Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "http")
	assert.NotContains(t, policy, "*")
	_, script, _ := strings.Cut(page.Body.String(), `src=".`)
	script, _, _ = strings.Cut(script, `"`)
	packed, plain := get(script, "br, gzip"), get(script, "")
	assert.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
	assert.Empty(t, plain.Header().Get("Content-Encoding"))
	assert.Greater(t, plain.Body.Len(), 2*packed.Body.Len())
	assert.Contains(t, get("/docs/start.js", "").Body.String(), "withDefaultFonts: false")
}
