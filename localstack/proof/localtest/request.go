package localtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Request is a request to the service.
type Request struct {
	Credential string // API key or token; "" means none
	OrgID      string // X-Org-Id; "" means none
	Method     string
	Path       string // with query
	// Body is sent as JSON; a string, []byte or json.RawMessage verbatim; nil
	// sends no body.
	Body   any
	Header http.Header // further headers
}

// Do sends a request with a credential ("" for none); body as in [Request].
func (env *Env) Do(t testing.TB, credential, method, path string, body any) *Response {
	t.Helper()
	return env.Send(t, Request{Credential: credential, Method: method, Path: path, Body: body})
}

// Send sends a request through the real router.
func (env *Env) Send(t testing.TB, r Request) *Response {
	t.Helper()
	var body io.Reader
	switch b := r.Body.(type) {
	case nil:
	case string:
		body = bytes.NewReader([]byte(b))
	case []byte:
		body = bytes.NewReader(b)
	case json.RawMessage:
		body = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		require.NoError(t, err)
		body = bytes.NewReader(data)
	}
	req := httptest.NewRequestWithContext(t.Context(), r.Method, r.Path, body)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Credential != "" {
		req.Header.Set("Authorization", "Bearer "+r.Credential)
	}
	if r.OrgID != "" {
		req.Header.Set("X-Org-Id", r.OrgID)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	w := httptest.NewRecorder()
	env.API.Handler().ServeHTTP(w, req)
	return &Response{Code: w.Code, Header: w.Header(), Body: w.Body.Bytes(), request: r.Method + " " + r.Path}
}

// Response is the response to a request.
type Response struct {
	Code    int
	Header  http.Header
	Body    []byte
	request string
}

// Require ends the test unless the status is code.
func (r *Response) Require(t testing.TB, code int) *Response {
	t.Helper()
	require.Equal(t, code, r.Code, "%s answered %s", r.request, r.Body)
	return r
}

// Into decodes the JSON body into v. Numbers in interfaces stay exact.
func (r *Response) Into(t testing.TB, v any) *Response {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.UseNumber()
	require.NoError(t, d.Decode(v), "%s answered %s", r.request, r.Body)
	return r
}

// Object returns the body, a JSON object. Integers are json.Number.
func (r *Response) Object(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	r.Into(t, &m)
	return m
}

// Get returns the value at a path of keys and indexes in the body, e.g. Get(t,
// "items", 0, "name"), and ends the test if there is none.
func (r *Response) Get(t testing.TB, path ...any) any {
	t.Helper()
	var v any
	r.Into(t, &v)
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.True(t, ok, "%v: not an object at %v in %s", path, s, r.Body)
			v, ok = m[s]
			require.True(t, ok, "%v: no %v in %s", path, s, r.Body)
		case int:
			l, ok := v.([]any)
			require.True(t, ok && s < len(l), "%v: no element %v in %s", path, s, r.Body)
			v = l[s]
		default:
			require.Fail(t, "path steps are strings and ints")
		}
	}
	return v
}

// String is Get for a string.
func (r *Response) String(t testing.TB, path ...any) string {
	t.Helper()
	s, ok := r.Get(t, path...).(string)
	require.True(t, ok, "%v is no string in %s", path, r.Body)
	return s
}

// Items returns the items of a list.
func (r *Response) Items(t testing.TB) []any {
	t.Helper()
	items, ok := r.Get(t, "items").([]any)
	require.True(t, ok, "items is no list in %s", r.Body)
	return items
}
