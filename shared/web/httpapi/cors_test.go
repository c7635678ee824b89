package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/shared/web/httpapi"
)

// TestPageOfAllowedOriginMayReadResponses checks preflights and the headers of
// results and errors alike, and that no other page gets them.
func TestPageOfAllowedOriginMayReadResponses(t *testing.T) {
	t.Parallel()
	const console = "https://console.example.com"
	h := fixture(t, func(c *httpapi.Config) { c.Origins = []string{console} }).Handler()
	ask := func(method, path, origin string) *httptest.ResponseRecorder {
		r := request(t, method, path, "", "")
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for path, status := range map[string]int{"/nowhere": 404, "/fail/unwritable": 405} {
		got := ask("GET", path, console)
		assert.Equal(t, status, got.Code, path)
		assert.Equal(t, console, got.Header().Get("Access-Control-Allow-Origin"), path)
		assert.Empty(t, got.Header().Get("Access-Control-Allow-Credentials"), path)
		assert.NotContains(t, ask("GET", path, "https://evil.example").Header(), "Access-Control-Allow-Origin", path)
		got = ask("OPTIONS", path, console)
		assert.Equal(t, http.StatusNoContent, got.Code, path)
		assert.Contains(t, got.Header().Get("Access-Control-Allow-Methods"), http.MethodPost)
		assert.NotEqual(t, http.StatusNoContent, ask("OPTIONS", path, "https://evil.example").Code)
	}
}
