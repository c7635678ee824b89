package console_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/console"
	"millrace/localstack/proof/localtest"
	"millrace/shared/web/fn"
)

func TestApprovalPageLoadsOnlyFromServer(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, localtest.Options{Config: fn.Config{SignIn: fn.SignIn{
		Issuer: "https://id.test", Client: `a"b`, Callback: "https://api.test/v1/cli-callback",
		Authorize: "https://id.test/authorize", Token: "https://token.id.test/token?x",
	}}}, console.Spec)
	page := get(t, env, "/cli-callback?code=abc&state=x", nil).Require(t, 200)
	text, policy := string(page.Body), page.Header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.Contains(t, policy, "connect-src 'self' https://token.id.test;")
	assert.Contains(t, policy, "script-src 'self';")
	assert.NotContains(t, policy, "unsafe")
	assert.Equal(t, "no-store", page.Header.Get("Cache-Control"))
	assert.Equal(t, "no-referrer", page.Header.Get("Referrer-Policy"))

	_, rest, _ := strings.Cut(text, "<style>")
	style, _, found := strings.Cut(rest, "</style>")
	require.True(t, found)
	sum := sha256.Sum256([]byte(style))
	assert.Contains(t, policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	assert.Equal(t, 1, strings.Count(text, "<script"))
	assert.Contains(t, text, `<script src="./cli-callback/page.js"></script>`)
	assert.NotContains(t, text, "style=")
	assert.NotRegexp(t, ` on[a-z]+=`, text, "no handlers in attributes")
	assert.Contains(t, text, `data-client="a&#34;b"`)
	assert.Contains(t, text, `data-callback="https://api.test/v1/cli-callback"`)
	assert.NotContains(t, text, "abc", "nothing of the request is on the page")

	script := get(t, env, "/cli-callback/page.js", nil).Require(t, 200)
	assert.Equal(t, "text/javascript; charset=utf-8", script.Header.Get("Content-Type"))
	for _, forbidden := range []string{"localStorage", "document.cookie", "innerHTML", "eval("} {
		assert.NotContains(t, string(script.Body), forbidden)
	}
}

func TestApprovalPageWithoutIdentityProvider(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, console.Spec)
	page := get(t, env, "/cli-callback", nil).Require(t, 200)
	assert.Contains(t, string(page.Body), `data-authorize=""`)
	assert.Contains(t, page.Header.Get("Content-Security-Policy"), "connect-src 'self';")
}

func TestApprovalPageReadsTheEndpointsOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	document := map[string]string{}
	broken := atomic.Bool{}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if broken.Load() || r.URL.Path != "/.well-known/openid-configuration" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(provider.Close)
	env := localtest.Open(t, localtest.Options{Config: fn.Config{URL: "https://api.test/v1", SignIn: fn.SignIn{Issuer: provider.URL, Client: "app"}}}, console.Spec)

	broken.Store(true)
	get(t, env, "/cli-callback", nil).Require(t, 503)
	broken.Store(false)
	for name, endpoint := range map[string]string{"none": "", "relative": "/authorize", "script": "javascript:alert(1)"} {
		document = map[string]string{"issuer": provider.URL, "authorization_endpoint": endpoint, "token_endpoint": provider.URL + "/token"}
		assert.Equal(t, 503, get(t, env, "/cli-callback", nil).Code, name)
	}
	document = map[string]string{"issuer": "https://evil.test", "authorization_endpoint": provider.URL + "/a", "token_endpoint": provider.URL + "/t"}
	get(t, env, "/cli-callback", nil).Require(t, 503)

	document["issuer"] = provider.URL
	before := asked.Load()
	for range 3 {
		page := get(t, env, "/cli-callback", nil).Require(t, 200)
		assert.Contains(t, string(page.Body), `data-authorize="`+provider.URL+`/a"`)
		assert.Contains(t, string(page.Body), `data-callback="https://api.test/v1/cli-callback"`)
	}
	assert.Equal(t, before+1, asked.Load())
}
