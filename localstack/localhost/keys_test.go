package localhost_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/localhost"
)

var keys = localhost.Keys{
	Secret: "a-local-secret", AccessKeyID: "MILLRACEEXAMPLE12345", SecretAccessKey: "example-secret-key_0123456789-abcdefghijkl",
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func TestBearer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys    localhost.Keys
		headers []string
		opens   bool
	}{
		"right":           {keys, []string{"Bearer a-local-secret"}, true},
		"lower case":      {keys, []string{"bearer a-local-secret"}, true},
		"none":            {keys, nil, false},
		"empty":           {keys, []string{""}, false},
		"no token":        {keys, []string{"Bearer"}, false},
		"empty token":     {keys, []string{"Bearer "}, false},
		"beginning":       {keys, []string{"Bearer a-local-secre"}, false},
		"longer":          {keys, []string{"Bearer a-local-secrets"}, false},
		"other case":      {keys, []string{"Bearer A-local-secret"}, false},
		"no scheme":       {keys, []string{"a-local-secret"}, false},
		"other scheme":    {keys, []string{"Basic a-local-secret"}, false},
		"two":             {keys, []string{"Bearer a-local-secret", "Bearer a-local-secret"}, false},
		"access key":      {keys, []string{"Bearer MILLRACEEXAMPLE12345"}, false},
		"no secret known": {localhost.Keys{}, []string{"Bearer "}, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/_local/metrics", nil)
		r.Header["Authorization"] = c.headers
		w := httptest.NewRecorder()
		c.keys.Bearer(http.HandlerFunc(ok)).ServeHTTP(w, r)
		verify, err := c.keys.Check(r, now)
		if c.opens {
			assert.Equal(t, http.StatusNoContent, w.Code, name)
			require.NoError(t, err, name)
			assert.NoError(t, verify([]byte("any body")), name)
			continue
		}
		assert.Equal(t, http.StatusUnauthorized, w.Code, name)
		assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"), name)
		var answer map[string]string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), name)
		assert.Contains(t, answer["detail"], "local_secret of credentials.json", name)
		assert.Nil(t, verify, name)
		assert.ErrorAs(t, err, new(*localhost.AuthError), name)
	}
}

// TestOnly: web pages are rejected, whatever credential they have; the peer's
// address is irrelevant.
func TestOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host   string
		header []string
		status int
	}{
		"address":        {"127.0.0.1:8080", nil, http.StatusNoContent},
		"IPv6":           {"[::1]:8080", nil, http.StatusNoContent},
		"of the network": {"192.0.2.1", nil, http.StatusNoContent},
		"localhost":      {"localhost:8080", nil, http.StatusNoContent},
		"below it":       {"millrace.localhost", nil, http.StatusNoContent},
		"own page":       {"localhost:8080", []string{"Sec-Fetch-Site", "same-origin"}, http.StatusNoContent},
		"name":           {"rebound.example.com", nil, http.StatusForbidden},
		"name alike":     {"127.0.0.1.example.com", nil, http.StatusForbidden},
		"no host":        {"", nil, http.StatusForbidden},
		"origin":         {"localhost", []string{"Origin", "https://example.com"}, http.StatusForbidden},
		"other site":     {"localhost", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodPost, "/_local/sign-in", nil)
		r.Host = c.host
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		w := httptest.NewRecorder()
		localhost.Only(http.HandlerFunc(ok)).ServeHTTP(w, r)
		assert.Equal(t, c.status, w.Code, name)
	}
}
