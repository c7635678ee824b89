package cors_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/web/cors"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := cors.Parse([]string{"https://console.example.com", "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:1", "https://a.example:8443", "https://console.example.com"})
	require.NoError(t, err)
	assert.Equal(t, cors.Origins{"https://console.example.com", "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:1", "https://a.example:8443"}, got)
	for _, bad := range []string{
		"", "*", "null", "https://*", "https://*.example.com", "http://console.example.com", "console.example.com", "https://console.example.com/", "https://a.example/x",
		"https://a.example?q", "https://u@a.example", "https://A.example", "https://a.example:443", "http://localhost:80", "https://a.example:", "ftp://a.example", "https://", "https://a b",
	} {
		_, err := cors.Parse([]string{bad})
		assert.ErrorContains(t, err, "is not an origin such as https://console.example.com", bad)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	const origin = "https://console.example.com"
	for _, c := range []struct {
		name, method string
		request      http.Header
		status       int
		want         http.Header
	}{
		{"no page", "GET", nil, 418, http.Header{"Vary": {"Origin"}}},
		{"another page", "GET", http.Header{"Origin": {"https://evil.example"}}, 418, http.Header{"Vary": {"Origin"}}},
		{"a longer name", "GET", http.Header{"Origin": {origin + ".evil.example"}}, 418, http.Header{"Vary": {"Origin"}}},
		{"two origins", "GET", http.Header{"Origin": {origin, "https://evil.example"}}, 418, http.Header{"Vary": {"Origin"}}},
		{"a preflight of another page", "OPTIONS", http.Header{"Origin": {"null"}, "Access-Control-Request-Method": {"GET"}}, 418, http.Header{"Vary": {"Origin"}}},
		{"a request", "GET", http.Header{"Origin": {origin}}, 418, http.Header{
			"Vary": {"Origin"}, "Access-Control-Allow-Origin": {origin},
			"Access-Control-Expose-Headers": {"Allow, Content-Disposition, ETag, Location, Retry-After, Traceresponse, X-Request-Id"},
		}},
		{"OPTIONS but no preflight", "OPTIONS", http.Header{"Origin": {origin}}, 418, http.Header{
			"Vary": {"Origin"}, "Access-Control-Allow-Origin": {origin},
			"Access-Control-Expose-Headers": {"Allow, Content-Disposition, ETag, Location, Retry-After, Traceresponse, X-Request-Id"},
		}},
		{"a preflight", "OPTIONS", http.Header{
			"Origin": {origin}, "Access-Control-Request-Method": {"PATCH"}, "Access-Control-Request-Headers": {"authorization,content-type"},
		}, 204, http.Header{
			"Vary": {"Origin", "Access-Control-Request-Headers"}, "Access-Control-Allow-Origin": {origin}, "Access-Control-Max-Age": {"600"},
			"Access-Control-Allow-Methods": {"GET, HEAD, POST, PUT, PATCH, DELETE"}, "Access-Control-Allow-Headers": {"authorization,content-type"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := cors.Origins{"http://localhost:1", origin}.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }))
			r := httptest.NewRequestWithContext(t.Context(), c.method, "/flows", nil)
			for name, values := range c.request {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, c.want, w.Header())
		})
	}
}

func TestNoOriginsChangeNothing(t *testing.T) {
	t.Parallel()
	h := cors.Origins(nil).Handler(http.NotFoundHandler())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/", nil)
	r.Header.Set("Origin", "https://console.example.com")
	r.Header.Set("Access-Control-Request-Method", "GET")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.NotContains(t, w.Header(), "Access-Control-Allow-Origin")
	assert.NotContains(t, w.Header(), "Vary")
}
