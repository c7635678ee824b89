package otlp_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/platform/telemetry/telemetrytest"
)

func getenv(endpoint, headers string) func(string) string {
	return func(name string) string {
		return map[string]string{otlp.EnvEndpoint: endpoint, otlp.EnvHeaders: headers}[name]
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	c, err := otlp.ReadConfig(getenv("", "nonsense"))
	require.NoError(t, err, "it is off")
	assert.Nil(t, otlp.New(c, slog.Default()))
	c, err = otlp.ReadConfig(getenv("https://collector.example/base/", "api-key=hush%20hush, x-tenant = acme,"))
	require.NoError(t, err)
	assert.Equal(t, "https://collector.example/base/v1/traces", c.URL)
	assert.Equal(t, http.Header{"Api-Key": {"hush hush"}, "X-Tenant": {"acme"}}, c.Headers)
	for _, wrong := range [][2]string{
		{"collector:4318", ""}, {"grpc://collector:4317", ""}, {"https://", ""}, {"%", ""},
		{"https://c", "hush"}, {"https://c", "=hush"}, {"https://c", "a=%zzhush"}, {"https://c", "a=hush%0d%0ab"},
	} {
		_, err := otlp.ReadConfig(getenv(wrong[0], wrong[1]))
		require.Error(t, err, wrong)
		assert.NotContains(t, err.Error(), "hush")
	}
}

// TestSpansArePostedInTheirJSONForm, as opentelemetry.proto maps it.
func TestSpansArePostedInTheirJSONForm(t *testing.T) {
	t.Parallel()
	bodies := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/traces", r.URL.Path)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Equal(t, "k", r.Header.Get("Api-Key"))
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		bodies <- body
	}))
	defer server.Close()
	c, err := otlp.ReadConfig(getenv(server.URL, "api-key=k"))
	require.NoError(t, err)
	e := otlp.New(c, slog.New(slog.DiscardHandler), slog.String("service.name", "millrace"))
	parent, _ := telemetry.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	unsampled, _ := telemetry.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	own := parent.Span("own")
	at := time.Unix(1_700_000_000, 5).UTC()
	e.Spans.Add(telemetry.Span{
		Trace: own, Parent: parent, Name: "task a", Kind: telemetry.Internal, Start: at, End: at.Add(time.Second), Error: "TaskFailedError",
		Attrs: []slog.Attr{slog.String("millrace.task", "a"), slog.Int("millrace.attempt", 2), slog.String("empty", "")},
	})
	e.Spans.Add(telemetry.Span{Trace: unsampled})
	e.Spans.Add(telemetry.Span{})
	e.Flush(t.Context())
	assert.JSONEq(t, `{"resourceSpans": [{
		"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "millrace"}}]},
		"scopeSpans": [{"scope": {"name": "millrace"}, "spans": [{
			"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "`+own.SpanID()+`", "parentSpanId": "b7ad6b7169203331",
			"name": "task a", "kind": 1, "startTimeUnixNano": "1700000000000000005", "endTimeUnixNano": "1700000001000000005",
			"attributes": [
				{"key": "millrace.task", "value": {"stringValue": "a"}}, {"key": "millrace.attempt", "value": {"intValue": "2"}},
				{"key": "error.type", "value": {"stringValue": "TaskFailedError"}}
			],
			"status": {"code": 2}
		}]}]
	}]}`, string(<-bodies))
	e.Flush(t.Context()) // there is nothing to post
	assert.Empty(t, bodies)
	assert.Equal(t, &otlp.State{Collector: server.URL, Exported: 1}, e.State())
}

// TestLostSpansAreToldOnce: a collector that is away harms nothing, is not asked
// for long, and does not fill the log.
func TestLostSpansAreToldOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	c, err := otlp.ReadConfig(getenv(server.URL+"/token-in-the-path", ""))
	require.NoError(t, err)
	var log telemetrytest.Log
	e := otlp.New(c, log.Logger())
	for range 3 {
		for range 3000 {
			e.Spans.Add(telemetry.Span{Trace: telemetry.NewTrace()})
		}
		e.Flush(t.Context())
	}
	server.Close()
	e.Spans.Add(telemetry.Span{Trace: telemetry.NewTrace()})
	e.Flush(t.Context())
	lines := log.Said(t, "spans were not exported")
	require.Len(t, lines, 1)
	assert.InDelta(t, 3000, lines[0]["lost"], 0)
	assert.Contains(t, lines[0]["error"], "503")
	text, err := json.Marshal(lines)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "token-in-the-path")
	state := e.State()
	assert.Equal(t, []any{server.URL, 0, 9001, true}, []any{state.Collector, state.Exported, state.Lost, state.Failing})
	assert.NotEmpty(t, state.Error)
	assert.WithinDuration(t, time.Now(), state.FailedAt, time.Minute)
}

// TestExportRecovers after an error, which stays on record.
func TestExportRecovers(t *testing.T) {
	t.Parallel()
	status := http.StatusUnauthorized
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	c, err := otlp.ReadConfig(getenv(server.URL, ""))
	require.NoError(t, err)
	e := otlp.New(c, slog.New(slog.DiscardHandler))
	for _, want := range []otlp.State{{Lost: 1, Failing: true}, {Lost: 1, Exported: 1}, {Lost: 1, Exported: 1}} {
		if want.Failing || e.State().Failing {
			e.Spans.Add(telemetry.Span{Trace: telemetry.NewTrace()})
		}
		e.Flush(t.Context())
		got := *e.State()
		assert.Equal(t, "the collector answered 401", got.Error)
		got.Collector, got.Error, got.FailedAt = "", "", time.Time{}
		assert.Equal(t, want, got)
		status = http.StatusOK
	}
}

func TestNothingIsCollectedWithoutExporter(t *testing.T) {
	t.Parallel()
	var e *otlp.Exporter
	spans := e.Collector()
	spans.Add(telemetry.Span{Trace: telemetry.NewTrace()})
	waiting, dropped := spans.Take()
	assert.Empty(t, waiting)
	assert.Zero(t, dropped)
	e.Flush(t.Context())
	e.Run(t.Context())
	assert.Nil(t, e.State())
}
