package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/platform/telemetry/otlp"
)

// TestSpansAreExportedBeforeTheEnvironmentIsFrozen: an answered invocation has
// posted its spans, in the trace of the caller.
func TestSpansAreExportedBeforeTheEnvironmentIsFrozen(t *testing.T) {
	t.Parallel()
	for handler, path := range map[string]string{"auth": "/me", "runs": "/runs"} { // one buffers its responses, the other streams them
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			type span struct{ TraceID, SpanID, ParentSpanID, Name string }
			posted := make(chan span, 8)
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "planted", r.Header.Get("Api-Key"))
				var in struct {
					ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
				}
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&in))
				for _, s := range in.ResourceSpans[0].ScopeSpans[0].Spans {
					posted <- s
				}
			}))
			defer collector.Close()
			env := map[string]string{otlp.EnvEndpoint: collector.URL, otlp.EnvHeaders: "api-key=planted"}
			answers, _ := output(t, handler, env, get(t, path))
			require.Len(t, posted, 1)
			got := <-posted
			assert.Equal(t, []string{traceID, "b7ad6b7169203331", "GET " + path}, []string{got.TraceID, got.ParentSpanID, got.Name})
			assert.Contains(t, answers[0], got.SpanID, "the answer names the span")
		})
	}
}

func TestInvalidCollectorPreventsStart(t *testing.T) {
	t.Parallel()
	env := complete()
	env["_HANDLER"], env[otlp.EnvEndpoint], env[otlp.EnvHeaders] = "auth", "https://c.example", "hush"
	_, err := start(getenv(env), catalog.All())
	require.ErrorContains(t, err, otlp.EnvHeaders+" is not key=value")
	assert.NotContains(t, err.Error(), "hush")
}
