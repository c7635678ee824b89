package httpapi_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers of the golden cases")

// golden is a request and its response: a file in testdata/answers.
type golden struct {
	Request struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		As      string            `json:"as,omitempty"` // the credential
		Headers map[string]string `json:"headers,omitempty"`
		Body    string            `json:"body,omitempty"`
		Times   int               `json:"times,omitempty"` // repetitions of the body
	} `json:"request"`
	Answer answer `json:"answer"`
}

type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"` // headers worth comparing
	Body    json.RawMessage   `json:"body,omitempty"`
}

func (g *golden) send(tb testing.TB, h http.Handler) answer {
	body := strings.Repeat(g.Request.Body, max(g.Request.Times, 1))
	r := httptest.NewRequestWithContext(tb.Context(), g.Request.Method, g.Request.Path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if g.Request.As != "" {
		r.Header.Set("Authorization", "Bearer "+g.Request.As)
	}
	for name, value := range g.Request.Headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.NotEmpty(tb, w.Header().Get("X-Request-Id"))
	assert.Equal(tb, "nosniff", w.Header().Get("X-Content-Type-Options"))
	assert.Equal(tb, "no-store", w.Header().Get("Cache-Control"))
	out := answer{Status: w.Code, Body: w.Body.Bytes()}
	for _, name := range []string{"WWW-Authenticate", "Retry-After", "Allow", "Content-Type", "Connection"} {
		if values := w.Header().Values(name); len(values) > 0 {
			if out.Headers == nil {
				out.Headers = map[string]string{}
			}
			out.Headers[name] = strings.Join(values, ", ")
		}
	}
	return out
}

func TestResponsesMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/answers/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	handler := fixture(t, nil).Handler()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var want golden
			require.NoError(t, json.Unmarshal(data, &want))
			got := want.send(t, handler)
			if *update {
				want.Answer = got
				out, err := json.MarshalIndent(want, "", "  ")
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, append(out, '\n'), 0o600))
				return
			}
			assert.Equal(t, want.Answer.Status, got.Status)
			assert.Equal(t, want.Answer.Headers, got.Headers)
			if len(want.Answer.Body) == 0 {
				assert.Empty(t, string(got.Body))
			} else {
				assert.JSONEq(t, string(want.Answer.Body), string(got.Body))
			}
			if got.Status >= http.StatusBadRequest {
				assertErrorShape(t, got.Body)
			}
		})
	}
}

// assertErrorShape checks that detail is a sentence or a list of entries.
func assertErrorShape(tb testing.TB, body []byte) {
	var e map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(body, &e))
	require.Len(tb, e, 1)
	var sentence string
	if json.Unmarshal(e["detail"], &sentence) == nil {
		assert.NotEmpty(tb, sentence)
		return
	}
	var entries []map[string]any
	require.NoError(tb, json.Unmarshal(e["detail"], &entries))
	require.NotEmpty(tb, entries)
	for _, entry := range entries {
		assert.Len(tb, entry, 4)
		assert.NotEmpty(tb, entry["type"])
		assert.NotEmpty(tb, entry["msg"])
		assert.NotEmpty(tb, entry["loc"])
		assert.Contains(tb, entry, "input")
	}
}
