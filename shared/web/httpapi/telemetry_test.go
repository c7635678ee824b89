package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/web/httpapi"
)

const (
	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceID = "0af7651916cd43dd8448eb211c80319c"
)

// observed returns the fixture's handler with its log and metrics.
func observed(t *testing.T) (http.Handler, *telemetrytest.Log, *telemetry.Metrics, *telemetrytest.Log) {
	log, numbers := &telemetrytest.Log{}, &telemetrytest.Log{}
	metrics := telemetry.NewMetrics("Millrace", numbers)
	h := fixture(t, func(c *httpapi.Config) { c.Log, c.Metrics = log.Logger(), metrics }).Handler()
	return h, log, metrics, numbers
}

// TestCanonicalLine checks for one line per request, with its subject and
// without anything in which a client may have put a secret.
func TestCanonicalLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method, target, as string
		want                     telemetrytest.Line
	}{
		{"answered", "GET", "/things/secret7?x=secret8", "viewer", telemetrytest.Line{
			"level": "INFO", "function": "things", "operation": "things-get", "org_id": "acme", "method": "GET", "route": "/things/{id}", "status": 200.0,
		}},
		{"without a route", "GET", "/secret7?x=secret8", "viewer", telemetrytest.Line{
			"level": "INFO", "method": "GET", "route": "", "status": 404.0,
		}},
		{"with another method", "PUT", "/things/secret7", "viewer", telemetrytest.Line{
			"level": "INFO", "method": "PUT", "route": "", "status": 405.0,
		}},
		{"with a wrong credential", "GET", "/things/secret7?x=secret8", "svc_secret9secret9secret9", telemetrytest.Line{
			"level": "INFO", "function": "things", "operation": "things-get", "method": "GET", "route": "/things/{id}", "status": 401.0,
		}},
		{"without permission", "DELETE", "/things/secret7", "viewer", telemetrytest.Line{
			"level": "INFO", "function": "things", "operation": "things-delete", "org_id": "acme", "method": "DELETE", "route": "/things/{id}", "status": 403.0,
		}},
		{"refused for now", "POST", "/fail/throttled", "owner", telemetrytest.Line{
			"level": "ERROR", "function": "failures", "operation": "fail", "org_id": "acme", "method": "POST", "route": "/fail/{kind}", "status": 503.0,
			"error": "unavailable: The service is busy, try again: table: throttled",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, log, _, _ := observed(t)
			r := request(t, c.method, c.target, c.as, "")
			r.Header.Set(telemetry.TraceParent, parent)
			r.Header.Set("Cookie", "secret6")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			lines := log.Lines(t)
			require.Len(t, lines, 1)
			line := lines[0]
			assert.NotEmpty(t, line["time"])
			span := strings.Split(w.Header().Get(telemetry.TraceResponse), "-")
			c.want["msg"], c.want["time"], c.want["duration_ms"] = "request", line["time"], 0.0
			c.want["request_id"] = w.Header().Get("X-Request-Id")
			c.want["trace_id"], c.want["span_id"] = traceID, span[2]
			if e, ok := c.want["error"]; ok {
				assert.Contains(t, e, line["error"])
				c.want["error"] = line["error"]
			}
			assert.Equal(t, c.want, line)
			assert.NotContains(t, log.String(), "secret")
		})
	}
}

// TestCauseIsLoggedOnce, on its own line besides the canonical one.
func TestCauseIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"unknown", "panic", "unwritable"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, log, _, _ := observed(t)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request(t, "POST", "/fail/"+kind, "owner", ""))
			require.Equal(t, 500, w.Code)
			lines := log.Lines(t)
			require.Len(t, lines, 2)
			failed, request := lines[0], lines[1]
			assert.Equal(t, []any{"request failed", "request"}, []any{failed["msg"], request["msg"]})
			assert.NotEmpty(t, failed["error"])
			assert.NotEmpty(t, failed["traceback"])
			assert.NotContains(t, request, "error")
			for _, name := range []string{"request_id", "org_id", "function", "operation", "trace_id", "span_id"} {
				assert.NotEmpty(t, failed[name], name)
				assert.Equal(t, request[name], failed[name], name)
			}
		})
	}
}

// TestTraceOfRequest: a valid trace is continued, anything else starts a new
// one, and the response names it.
func TestTraceOfRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sent []string
		same bool
	}{
		{"valid", []string{parent}, true},
		{"of a later version", []string{"01" + parent[2:] + "-more"}, true},
		{"none", nil, false},
		{"twice", []string{parent, parent}, false},
		{"in one header, twice", []string{parent + "," + parent}, false},
		{"of zeros", []string{"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01"}, false},
		{"nonsense", []string{"nonsense"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, log, _, _ := observed(t)
			r := request(t, "GET", "/things/1", "viewer", "")
			r.Header[telemetry.TraceParent] = c.sent
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			answer, ok := telemetry.ParseTrace(w.Header().Get("traceresponse"))
			require.True(t, ok, w.Header())
			assert.Equal(t, c.same, answer.TraceID() == traceID)
			assert.NotContains(t, parent, answer.SpanID(), "the request has a span of its own")
			line := log.Lines(t)[0]
			assert.Equal(t, []any{answer.TraceID(), answer.SpanID()}, []any{line["trace_id"], line["span_id"]})
		})
	}
}

func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	h, _, metrics, numbers := observed(t)
	for target, as := range map[string]string{
		"GET /things/1": "viewer", "GET /things/2": "", "DELETE /things/1": "viewer", "GET /nowhere": "viewer", "PUT /things/1": "viewer",
		"POST /fail/quota": "owner", "POST /fail/panic": "owner", "POST /fail/throttled": "owner",
	} {
		method, path, _ := strings.Cut(target, " ")
		h.ServeHTTP(httptest.NewRecorder(), request(t, method, path, as, ""))
	}
	require.NoError(t, metrics.Flush(epoch, telemetry.Subject{}))
	got := telemetrytest.Metrics(t, numbers.Lines(t))
	for _, want := range []struct {
		name, function, code string
		count                float64
	}{
		{"Requests", "things", "", 3}, {"Requests", "failures", "", 3},
		{"Errors", "things", "unauthenticated", 1}, {"Errors", "things", "forbidden", 1},
		{"Errors", "failures", "too_many", 1}, {"Errors", "failures", "internal", 1}, {"Errors", "failures", "unavailable", 1},
	} {
		dimensions := []string{"Function", want.function}
		if want.code != "" {
			dimensions = append(dimensions, "Code", want.code)
		}
		assert.InDelta(t, want.count, telemetrytest.Sum(got, want.name, dimensions...), 0, "%+v", want)
	}
	assert.InDelta(t, 8, telemetrytest.Sum(got, "Requests"), 0, "those without a route too")
	assert.InDelta(t, 7, telemetrytest.Sum(got, "Errors"), 0)
	assert.InDelta(t, 1, telemetrytest.Sum(got, "Errors", "Code", "method_not_allowed"), 0)
}
