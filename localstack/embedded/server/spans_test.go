package server_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
)

// collector stands in for an OpenTelemetry collector.
type collector struct {
	mu     sync.Mutex
	spans  []exported
	bodies bytes.Buffer
}

type exported struct {
	TraceID, SpanID, ParentSpanID, Name string
	Status                              struct{ Code int }
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []exported }
		}
	}
	_ = json.Unmarshal(body, &in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies.Write(body)
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// of returns the spans of a trace by name.
func (c *collector) of(trace string) map[string][]exported {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]exported{}
	for _, s := range c.spans {
		if s.TraceID == trace {
			out[s.Name] = append(out[s.Name], s)
		}
	}
	return out
}

// TestSpansOfARunAreOneTree: from the request to the Python task, which gets its
// place in the tree.
func TestSpansOfARunAreOneTree(t *testing.T) {
	c := &collector{}
	stand := httptest.NewServer(c)
	defer stand.Close()
	_, made := serve(t, func(cfg *server.Config) {
		cfg.OTLP = otlp.Config{URL: stand.URL, Headers: http.Header{}}
	})
	api := &client.Client{BaseURL: made.BaseURL, Token: made.APIKey, HTTP: http.DefaultClient}
	var code bytes.Buffer
	w := zip.NewWriter(&code)
	f, err := w.Create("flow.py")
	require.NoError(t, err)
	_, err = f.Write([]byte(`
import os
def show(ctx):
    if ctx.attempt == 1: raise ValueError("hush-hush")
    return os.environ["TRACEPARENT"]
`))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	spec := `{"tasks": [
		{"name": "show", "type": "python", "entrypoint": "flow:show", "retries": 1, "retry_backoff": {"delay_secs": 0}},
		{"name": "after", "type": "transform", "depends_on": ["show"], "config": {"expression": "1"}}]}`
	_, err = api.Upload(t.Context(), client.Upload{FlowName: "f", FlowVersion: "1", DeploymentName: "f", Spec: json.RawMessage(spec), Zip: code.Bytes()})
	require.NoError(t, err)
	run, err := api.Start(t.Context(), client.RunRequest{Deployment: "f", Execute: true})
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", run.Status, "%+v", run)
	var seen string
	for _, task := range run.Task("show") {
		if task.Status == "SUCCEEDED" {
			require.NoError(t, json.Unmarshal(task.Output, &seen))
		}
	}
	trace, ok := telemetry.ParseTrace(seen)
	require.True(t, ok, seen)
	var spans map[string][]exported
	require.Eventually(t, func() bool {
		spans = c.of(trace.TraceID())
		return len(spans["POST /runs"]) > 0 && len(spans["run f"]) > 0
	}, time.Minute, 50*time.Millisecond)

	root := spans["POST /runs"]
	require.Len(t, root, 1)
	assert.Empty(t, root[0].ParentSpanID)
	child := func(name string, parent exported, codes ...int) []exported {
		t.Helper()
		got := spans[name]
		require.Len(t, got, len(codes), name)
		for i, span := range got {
			assert.Equal(t, parent.SpanID, span.ParentSpanID, name)
			assert.Equal(t, codes[i], span.Status.Code, name)
		}
		return got
	}
	accepted := child("accept run", root[0], 0)
	whole := child("run f", accepted[0], 0)
	attempts := child("task show", whole[0], 2, 0)
	child("task after", whole[0], 0)
	assert.Equal(t, trace.SpanID(), attempts[1].SpanID, "what the task traces is below its attempt")
	calls := spans["execute python"]
	require.Len(t, calls, 2)
	for i, call := range calls {
		assert.Equal(t, attempts[i].SpanID, call.ParentSpanID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.NotContains(t, c.bodies.String(), made.APIKey)
	assert.NotContains(t, c.bodies.String(), "hush-hush", "messages may quote what is secret")
}
