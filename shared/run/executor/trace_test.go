package executor_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
	"millrace/shared/run/executor"
	"millrace/shared/run/sandbox"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func traced(t *testing.T) telemetry.Trace {
	t.Helper()
	trace, ok := telemetry.ParseTrace(parent)
	require.True(t, ok)
	return trace
}

// TestHTTPPropagatesTrace checks that requests have the attempt's trace, unless
// the task sets another or there is none.
func TestHTTPPropagatesTrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers string
		trace   telemetry.Trace
		want    []string
	}{
		"the attempt's":  {`{}`, traced(t), []string{parent}},
		"the task's own": {`{"traceparent": "mine"}`, traced(t), []string{"mine"}},
		"none, as asked": {`{"TraceParent": ""}`, traced(t), []string{""}},
		"none":           {`{}`, telemetry.Trace{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Values("traceparent") }))
			defer s.Close()
			a, _ := attempt(t, `{"name":"h","type":"http","config":{"url":"`+s.URL+`","headers":`+c.headers+`}}`)
			a.Trace = c.trace
			r := executor.HTTP{Client: s.Client()}.Execute(t.Context(), a)
			require.Nil(t, r.Failure)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestPythonGetsTrace(t *testing.T) {
	t.Parallel()
	for want, trace := range map[string]telemetry.Trace{parent: traced(t), "": {}} {
		var got sandbox.Request
		_, _, _ = python(t, pyTask, func(a *executor.Attempt) { a.Trace = trace },
			func(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
				got = req
				return sandbox.Result{Output: json.RawMessage(`1`), OutputBytes: 1}, nil
			})
		assert.Equal(t, want, got.TraceParent)
	}
}
