package telemetry_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

func TestFlushWritesTheEmbeddedMetricFormat(t *testing.T) {
	t.Parallel()
	var out telemetrytest.Log
	m := telemetry.NewMetrics("Millrace/test", &out)
	runs, nano := telemetry.Dimensions{Function: "runs"}, telemetry.Dimensions{Tier: "nano", Outcome: "FAILED"}
	m.Call("runs", 12500*time.Microsecond, "")
	m.Call("runs", time.Second, "not_found")
	m.Add(telemetry.WriteUnits, runs, 12)
	m.Add(telemetry.WriteUnits, runs, 2.5)
	m.Count(telemetry.TasksFinished, nano)
	trace, _ := telemetry.ParseTrace(parent)
	require.NoError(t, m.Flush(at, telemetry.Subject{Function: "runs", Invocation: "i-1", RequestID: "r-1", Workspace: "acme", Trace: trace}))

	lines := out.Lines(t)
	assert.Equal(t, []telemetrytest.Metric{
		{Name: "TasksFinished", Unit: "Count", Dimensions: map[string]string{"Tier": "nano", "Outcome": "FAILED"}, Values: []float64{1}},
		{Name: "Requests", Unit: "Count", Dimensions: map[string]string{"Function": "runs"}, Values: []float64{2}},
		{Name: "Duration", Unit: "Milliseconds", Dimensions: map[string]string{"Function": "runs"}, Values: []float64{12.5, 1000}},
		{Name: "WriteUnits", Unit: "Count", Dimensions: map[string]string{"Function": "runs"}, Values: []float64{14.5}},
		{Name: "Errors", Unit: "Count", Dimensions: map[string]string{"Function": "runs", "Code": "not_found"}, Values: []float64{1}},
	}, telemetrytest.Metrics(t, lines))
	require.Len(t, lines, 3, "one for each combination of dimensions")
	for _, line := range lines {
		assert.EqualValues(t, at.UnixMilli(), line["_aws"].(map[string]any)["Timestamp"])
		assert.Equal(t, []any{"i-1", "r-1", "acme", traceID}, []any{line["aws_request_id"], line["request_id"], line["org_id"], line["trace_id"]},
			"properties lead to the logs")
		assert.NotContains(t, line["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)["Dimensions"].([]any)[0], "org_id")
	}

	require.NoError(t, m.Flush(at, telemetry.Subject{}))
	assert.Len(t, out.Lines(t), 3, "what was written is forgotten")
}

func TestManyValuesAreSplitIntoLines(t *testing.T) {
	t.Parallel()
	var out telemetrytest.Log
	m := telemetry.NewMetrics("Millrace", &out)
	const n = 250
	for i := range n {
		m.Call("taskworker", time.Duration(i)*time.Millisecond, "")
	}
	require.NoError(t, m.Flush(at, telemetry.Subject{}))
	lines := out.Lines(t)
	assert.Len(t, lines, 3)
	got := telemetrytest.Metrics(t, lines)
	assert.InDelta(t, n, telemetrytest.Sum(got, "Requests"), 0, "a sum stands on one line only")
	assert.InDelta(t, n*(n-1)/2, telemetrytest.Sum(got, "Duration"), 0)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe is gone") }

func TestFlushReturnsWriterError(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("Millrace", broken{})
	require.NoError(t, m.Flush(at, telemetry.Subject{}), "nothing to write")
	m.Call("runs", 0, "")
	require.ErrorContains(t, m.Flush(at, telemetry.Subject{}), "pipe is gone")
	require.NoError(t, m.Flush(at, telemetry.Subject{}))
}

func TestFlushIsOneWrite(t *testing.T) {
	t.Parallel()
	var out writes
	m := telemetry.NewMetrics("Millrace", &out)
	m.Call("runs", 0, "internal")
	require.NoError(t, m.Flush(at, telemetry.Subject{}))
	assert.Equal(t, writes(1), out, "lines of others cannot come between")
}

type writes int

func (w *writes) Write(data []byte) (int, error) { *w++; return len(data), nil }

func TestNilMetricsMeasureNothing(t *testing.T) {
	t.Parallel()
	var m *telemetry.Metrics
	m.Call("runs", time.Second, "internal")
	m.Count(telemetry.Requests, telemetry.Dimensions{})
	m.Time(telemetry.QueueDelay, telemetry.Dimensions{}, time.Second)
	require.NoError(t, m.Flush(at, telemetry.Subject{}))
	require.NoError(t, m.WriteTotals(broken{}))
}

// TestMeasuringDoesNotAllocate covers all but the first measurement of a
// series.
func TestMeasuringDoesNotAllocate(t *testing.T) {
	for _, m := range []*telemetry.Metrics{nil, telemetry.NewTotals()} {
		m.Call("runs", time.Second, "internal")
		assert.Zero(t, testing.AllocsPerRun(100, func() { m.Call("runs", time.Second, "internal") }))
	}
}

// TestTotals covers what a long-running server shows.
func TestTotals(t *testing.T) {
	t.Parallel()
	m := telemetry.NewTotals()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				m.Call("runs", 10*time.Millisecond, "")
			}
		})
	}
	wg.Wait()
	m.Call("flows", 0, "not_found")
	m.Count(telemetry.RunsFinished, telemetry.Dimensions{Tier: "nano", Outcome: "SUCCEEDED"})
	var out bytes.Buffer
	for range 2 { // reading does not reset the totals
		out.Reset()
		require.NoError(t, m.WriteTotals(&out))
	}
	assert.Equal(t, strings.TrimPrefix(`
# TYPE millrace_requests_total counter
millrace_requests_total{function="flows"} 1
millrace_requests_total{function="runs"} 400
# TYPE millrace_errors_total counter
millrace_errors_total{function="flows",code="not_found"} 1
# TYPE millrace_duration_seconds summary
millrace_duration_seconds_sum{function="flows"} 0
millrace_duration_seconds_count{function="flows"} 1
millrace_duration_seconds_sum{function="runs"} 4
millrace_duration_seconds_count{function="runs"} 400
# TYPE millrace_runs_finished_total counter
millrace_runs_finished_total{tier="nano",outcome="SUCCEEDED"} 1
`, "\n"), out.String())
	require.NoError(t, m.Flush(at, telemetry.Subject{}), "totals are never flushed")
}

// BenchmarkCall measures the cost of measuring one request.
func BenchmarkCall(b *testing.B) {
	m := telemetry.NewTotals()
	b.ReportAllocs()
	for b.Loop() {
		m.Call("runs", time.Millisecond, "")
	}
}
