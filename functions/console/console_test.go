package console_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/functions/console"
	"millrace/localstack/proof/localtest"
	"millrace/shared/web/fn"
)

func get(t *testing.T, env *localtest.Env, path string, header http.Header) *localtest.Response {
	t.Helper()
	return env.Send(t, localtest.Request{Method: "GET", Path: path, Header: header})
}

func TestDocumentDescribesWholeAPI(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, catalog.All()...)
	res := get(t, env, "/openapi.json", nil).Require(t, 200)
	assert.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var doc struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(res.Body, &doc))
	for _, op := range catalog.Public(catalog.Operations(catalog.All())) {
		assert.Contains(t, doc.Paths[op.Path], strings.ToLower(op.Method), op.Path)
	}
	for _, own := range []string{"/", "/docs", "/openapi.json"} {
		assert.NotContains(t, doc.Paths, own)
	}

	packed := get(t, env, "/openapi.json", http.Header{"Accept-Encoding": {"gzip"}}).Require(t, 200)
	assert.Less(t, len(packed.Body)*4, len(res.Body))
	for _, known := range []*localtest.Response{res, packed} {
		header := http.Header{"If-None-Match": {known.Header.Get("ETag")}, "Accept-Encoding": {known.Header.Get("Content-Encoding")}}
		again := get(t, env, "/openapi.json", header)
		assert.Equal(t, http.StatusNotModified, again.Code)
		assert.Empty(t, again.Body)
	}
}

func TestPageLoadsOnlyFromServer(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, catalog.All()...)
	page := get(t, env, "/docs", nil).Require(t, 200)
	text := string(page.Body)
	assert.NotContains(t, text, "//", "no address of another host")
	assert.NotContains(t, text, "{{")
	policy := page.Header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "http")
	assert.NotContains(t, policy, "*")

	scripts := regexp.MustCompile(`src="\.([^"]+)"`).FindAllStringSubmatch(text, -1)
	require.Len(t, scripts, 2)
	for _, script := range scripts {
		res := get(t, env, script[1], nil).Require(t, 200)
		assert.Equal(t, "text/javascript; charset=utf-8", res.Header.Get("Content-Type"), script[1])
	}
	library := scripts[0][1]
	packed := get(t, env, library, http.Header{"Accept-Encoding": {"br, gzip"}}).Require(t, 200)
	assert.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
	assert.Contains(t, packed.Header.Get("Cache-Control"), "immutable")
	assert.Contains(t, string(get(t, env, scripts[1][1], nil).Body), "withDefaultFonts: false")

	slash := get(t, env, "/docs/", nil)
	assert.Equal(t, http.StatusPermanentRedirect, slash.Code, "its scripts are beside /docs")
	assert.Equal(t, "../docs", slash.Header.Get("Location"))
}

func TestManualIsServed(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, console.Spec)
	link := regexp.MustCompile(`href="\./docs/([^"]+)"`)
	linked := link.FindAllStringSubmatch(string(get(t, env, "/docs", nil).Require(t, 200).Body), -1)
	require.GreaterOrEqual(t, len(linked), 9)
	for _, found := range linked {
		page := get(t, env, "/docs/"+found[1], nil).Require(t, 200)
		text := string(page.Body)
		assert.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
		policy := page.Header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'")
		assert.NotContains(t, policy, "script-src")
		assert.NotContains(t, text, "<script")
		assert.NotContains(t, text, `src="`, "nothing is loaded")
		assert.Contains(t, text, `href="../docs"`)
		for _, other := range linked {
			assert.Contains(t, text, `<a href="`+other[1]+`"`, found[1])
		}

		again := get(t, env, "/docs/"+found[1], http.Header{"If-None-Match": {page.Header.Get("ETag")}})
		assert.Equal(t, http.StatusNotModified, again.Code)
		packed := get(t, env, "/docs/"+found[1], http.Header{"Accept-Encoding": {"gzip"}}).Require(t, 200)
		assert.Less(t, len(packed.Body)*2, len(page.Body))
		slash := get(t, env, "/docs/"+found[1]+"/", nil)
		assert.Equal(t, http.StatusPermanentRedirect, slash.Code, "its links are beside it")
	}
	for _, none := range []string{"nothing", "flow-spec.html", "flow-spec.md", "..%2Fpage", "%2e%2e", strings.Repeat("a", 64)} {
		res := get(t, env, "/docs/"+none, nil)
		assert.Equal(t, http.StatusNotFound, res.Code, none)
		assert.Contains(t, string(res.Body), `"detail"`, none)
	}
}

func TestRootRedirectsToPage(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"": "/docs", "https://x.test/v1": "https://x.test/v1/docs"} {
		env := localtest.Open(t, localtest.Options{Config: fn.Config{URL: url}}, console.Spec)
		res := get(t, env, "/?from=mail", nil)
		assert.Equal(t, http.StatusFound, res.Code)
		assert.Equal(t, want, res.Header.Get("Location"))
	}
}
