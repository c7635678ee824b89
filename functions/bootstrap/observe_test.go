package main

import (
	"encoding/json"
	"log"
	"log/slog"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
)

const traceID = "0af7651916cd43dd8448eb211c80319c"

// output sends payloads to one process of a function, one after the other, and
// returns the answers ("" for a fault) and the lines it wrote.
func output(t *testing.T, handler string, env map[string]string, payloads ...string) (answers []string, lines []telemetrytest.Line) {
	t.Helper()
	api, err := runtimeapi.Start()
	require.NoError(t, err)
	defer api.Close()
	var out telemetrytest.Log
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + api.Address(), "_HANDLER=" + handler}
	for _, vars := range []map[string]string{complete(), env} {
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	require.NoError(t, cmd.Start())
	for _, payload := range payloads {
		answer, err := api.Invoke(t.Context(), runtimeapi.Event{Payload: []byte(payload), Timeout: 10 * time.Second, ARN: "arn:aws:lambda:::function:" + handler})
		text := ""
		if err == nil {
			data, err := answer.Bytes()
			require.NoError(t, err)
			text = string(data)
		}
		answers = append(answers, text)
	}
	require.NoError(t, api.Ready(t.Context()))
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return answers, out.Lines(t)
}

// get returns a request with data that must not be logged.
func get(t *testing.T, path string) string {
	t.Helper()
	header := map[string][]string{
		"Authorization": {"Bearer svc_planted-key"}, "Cookie": {"session=planted-cookie"},
		"Traceparent": {"00-" + traceID + "-b7ad6b7169203331-01"},
	}
	data, err := json.Marshal(events.APIGatewayProxyRequest{
		Resource: path, Path: path, HTTPMethod: "GET", MultiValueHeaders: header,
		MultiValueQueryStringParameters: map[string][]string{"token": {"planted-token"}},
		RequestContext:                  events.APIGatewayProxyRequestContext{RequestID: "gateway-1", Stage: "v1", Identity: events.APIGatewayRequestIdentity{SourceIP: "192.0.2.1"}},
	})
	require.NoError(t, err)
	return string(data)
}

func only(lines []telemetrytest.Line, has string) []telemetrytest.Line {
	return slices.DeleteFunc(slices.Clone(lines), func(l telemetrytest.Line) bool { return l[has] == nil })
}

// TestLogLinesOfRequest: a deployed function writes only JSON: one canonical
// line for each request, and its metrics once.
func TestLogLinesOfRequest(t *testing.T) {
	t.Parallel()
	for _, handler := range []string{"auth", "runs"} { // one buffers its responses, the other streams them
		path := map[string]string{"auth": "/me", "runs": "/runs"}[handler]
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			answers, lines := output(t, handler, map[string]string{envMetrics: "Millrace/test"}, get(t, path), get(t, path))
			for _, answer := range answers {
				assert.Contains(t, answer, "00-"+traceID+"-", "the answer names the trace")
			}
			require.Len(t, lines, 2*3, "%v", lines)
			said, metrics := only(lines, "msg"), telemetrytest.Metrics(t, lines)
			require.Len(t, said, 2)
			for i, line := range said {
				for name, want := range map[string]any{
					"level": "INFO", "msg": "request", "function": handler, "request_id": "gateway-1", "method": "GET", "route": path,
					"status": 401.0, "trace_id": traceID,
				} {
					assert.Equal(t, want, line[name], name)
				}
				for _, name := range []string{"time", "operation", "aws_request_id", "span_id", "duration_ms"} {
					assert.NotEmpty(t, line[name], name)
				}
				assert.Equal(t, i == 0, line["cold_start"] == true)
				for _, of := range lines[3*i+1 : 3*i+3] {
					assert.Equal(t, line["aws_request_id"], of["aws_request_id"], "metrics lead to the line")
					assert.Equal(t, "Millrace/test", of["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)["Namespace"])
				}
			}
			assert.NotEqual(t, said[0]["aws_request_id"], said[1]["aws_request_id"])
			assert.InDelta(t, 2, telemetrytest.Sum(metrics, "Requests", "Function", handler), 0)
			assert.InDelta(t, 2, telemetrytest.Sum(metrics, "Errors", "Function", handler, "Code", "unauthenticated"), 0)
			assert.Positive(t, telemetrytest.Sum(metrics, "Duration", "Function", handler))
			text, err := json.Marshal(lines)
			require.NoError(t, err)
			assert.NotContains(t, string(text), "planted")
			assert.NotContains(t, string(text), secret)
		})
	}
}

// TestErrorOfInvocationIsLoggedOnce.
func TestErrorOfInvocationIsLoggedOnce(t *testing.T) {
	t.Parallel()
	answers, lines := output(t, "scheduler-tick", nil, `{"event_type": "other"}`)
	assert.Equal(t, []string{""}, answers)
	var failed []telemetrytest.Line
	for _, line := range only(lines, "msg") {
		if line["level"] == "ERROR" {
			failed = append(failed, line)
		}
	}
	require.Len(t, failed, 1, "%v", lines)
	line := failed[0]
	assert.Equal(t, []any{"invocation failed", "scheduler-tick", true}, []any{line["msg"], line["function"], line["cold_start"]})
	assert.NotEmpty(t, line["aws_request_id"])
	assert.Contains(t, line["error"], `event_type is "other"`)
	metrics := telemetrytest.Metrics(t, lines)
	assert.InDelta(t, 1, telemetrytest.Sum(metrics, "Requests", "Function", "scheduler-tick"), 0)
	assert.InDelta(t, 1, telemetrytest.Sum(metrics, "Errors", "Function", "scheduler-tick", "Code", "invalid"), 0)
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	_, lines := output(t, "auth", map[string]string{envLogLevel: "error"}, get(t, "/me"))
	assert.Empty(t, only(lines, "msg"))
	assert.NotEmpty(t, telemetrytest.Metrics(t, lines), "metrics have no level")
}

// TestPanicsAndRuntimeErrorsAreLogged covers the log of package lambda.
func TestPanicsAndRuntimeErrorsAreLogged(t *testing.T) {
	t.Parallel()
	var out telemetrytest.Log
	o := &observer{function: "runs"}
	ctx := o.begin(t.Context())
	runtime := log.New(runtimeLog{out.Logger(), o}, "", 0)
	runtime.Printf("%s", `{"errorMessage":"boom svc_0123456789abcdef","errorType":"string","stackTrace":[{"path":"a.go","line":7,"label":"f"}]}`)
	runtime.Printf("runtime API client failed to close: %v", "EOF")
	lines := out.Lines(t)
	require.Len(t, lines, 2)
	assert.Equal(t, []any{"ERROR", "invocation failed", "boom svc_***", "string", "runs"},
		[]any{lines[0]["level"], lines[0]["msg"], lines[0]["error"], lines[0]["exception_type"], lines[0]["function"]})
	assert.Contains(t, lines[0]["traceback"], `"line":7`)
	assert.Equal(t, []any{"WARN", "runtime API client failed to close: EOF"}, []any{lines[1]["level"], lines[1]["msg"]})
	assert.Equal(t, "runs", telemetry.From(ctx).Function)
}

// TestConsumedUnitsAreMeasured, including those of work without an invocation's
// context.
func TestConsumedUnitsAreMeasured(t *testing.T) {
	t.Parallel()
	var out telemetrytest.Log
	o := &observer{function: "runs", clock: clock.System{}, metrics: telemetry.NewMetrics("Millrace", &out)}
	store := table.Metered(memory.Table(t, clock.System{}), &o.units)
	key := table.Key{PK: "p", SK: "s"}
	require.NoError(t, store.Put(o.begin(t.Context()), table.Put{Item: struct{ table.Key }{key}}))
	_, err := store.Get(t.Context(), key, table.Consistent)
	require.NoError(t, err)
	require.NoError(t, o.flush())
	require.NoError(t, o.flush())
	assert.Equal(t, []telemetrytest.Metric{
		{Name: "ReadUnits", Unit: "Count", Dimensions: map[string]string{"Function": "runs"}, Values: []float64{1}},
		{Name: "WriteUnits", Unit: "Count", Dimensions: map[string]string{"Function": "runs"}, Values: []float64{1}},
	}, telemetrytest.Metrics(t, out.Lines(t)))
}

func TestNamespaceIsValidForCloudWatch(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"": true, "Millrace/prod-eu": true, "AWS/Lambda": false, "with space": false} {
		r := reader{getenv: getenv(map[string]string{envMetrics: name})}
		got := r.namespace()
		assert.Equal(t, ok, len(r.faults) == 0, name)
		assert.NotEmpty(t, got)
	}
	assert.Equal(t, slog.LevelInfo, (&reader{getenv: getenv(nil)}).level())
}
