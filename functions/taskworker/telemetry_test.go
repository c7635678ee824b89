package taskworker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/artifacts"
	"millrace/functions/dispatch"
	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/taskworker"
	"millrace/localstack/client"
	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/localtest"
	"millrace/shared/kit/outbound"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/executor"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

type object = map[string]any

const traceID = "0af7651916cd43dd8448eb211c80319c"

const source = `
import os, sys
def trace(ctx):
    print("here is", ctx.traceparent)
    return [ctx.traceparent, os.environ["TRACEPARENT"]]
def leak(ctx):
    print("using", ctx.secret("token"), file=sys.stderr)
    raise ValueError("refused: " + ctx.secret("token"))
`

// service is everything that a run needs: the API, the queues, the workers,
// Python and another server. Its logs and metrics are recorded.
type service struct {
	*localtest.Env
	log, numbers telemetrytest.Log
	metrics      *telemetry.Metrics
	elsewhere    *httptest.Server

	mu    sync.Mutex
	calls []http.Header
}

// secret is the value of every secret of the service.
const secret = "planted-secret-0123456789"

func open(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.metrics = telemetry.NewMetrics("Millrace", &s.numbers)
	s.elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, r.Header)
		if r.URL.Path == "/fail" { // like careless servers, it echoes the request
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("refused: " + r.URL.RawQuery + " " + r.Header.Get("X-Token")))
		}
	}))
	t.Cleanup(s.elsewhere.Close)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) // tasks may run as another user
	pool, err := interpreters.New(interpreters.Config{Dir: dir, Slots: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	s.Env = localtest.Open(t, localtest.Options{
		Sandbox: pool, Config: fn.Config{LongLived: true, AllowLoopback: true}, Log: s.log.Logger(), Metrics: s.metrics,
	}, runs.Spec, flows.Spec, artifacts.Spec)

	work := taskworker.Spec
	work.Messages = withSecrets
	specs := []fn.Spec{work, dispatch.Spec}
	rt, err := runtime.New(runtime.Config{Specs: specs, Deps: s.Deps, Workers: 4})
	require.NoError(t, err)
	rt.Start(specs, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
	return s
}

// withSecrets is the worker of a deployment with secrets.
func withSecrets(d fn.Deps) fn.MessageHandler {
	calls, err := outbound.NewClient(outbound.Policy{Loopback: true})
	if err != nil {
		panic(err) // the policy is constant
	}
	return worker.New(worker.Config{
		Table: d.Table, Queues: d.Queues, Blob: d.Blob, Bus: d.Bus, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics,
		Logs: d.Logs, Broker: d.Broker, LongLived: d.Config.LongLived,
		Secret:    func(context.Context, string, string, string) (string, error) { return secret, nil },
		Executors: executor.Set{"python": executor.Python{Sandbox: d.Sandbox, Blob: d.Blob}, "http": executor.HTTP{Client: calls}},
	}).Messages
}

// deploy uploads the source with a flow of these tasks.
func (s *service) deploy(t *testing.T, flow string, tasks ...object) {
	t.Helper()
	spec, err := json.Marshal(object{"tasks": tasks})
	require.NoError(t, err)
	api := httptest.NewServer(s.API.Handler())
	defer api.Close()
	c := &client.Client{BaseURL: api.URL, Token: s.A.Key}
	_, err = c.Upload(t.Context(), client.Upload{
		FlowName: flow, FlowVersion: "1", DeploymentName: flow, Spec: spec, Zip: registrytest.Zip(t, map[string]string{"flow.py": source}),
	})
	require.NoError(t, err)
}

// run runs a flow to its end.
func (s *service) run(t *testing.T, flow string, header http.Header, params object) *localtest.Response {
	t.Helper()
	return s.Send(t, localtest.Request{
		Credential: s.A.Key, Method: "POST", Path: "/runs", Header: header,
		Body: object{"flow_name": flow, "flow_version": "1", "execute": true, "parameters": params},
	}).Require(t, 200)
}

func python(name, function string, more ...object) object {
	return task(object{"name": name, "type": "python", "entrypoint": "flow:" + function}, more...)
}

func task(t object, more ...object) object {
	for _, m := range more {
		for k, v := range m {
			t[k] = v
		}
	}
	return t
}

// measured waits until a metric exists, because some are counted after a run
// has ended, and returns all metrics.
func (s *service) measured(t *testing.T, name string, dimensions ...string) []telemetrytest.Metric {
	t.Helper()
	var got []telemetrytest.Metric
	require.Eventually(t, func() bool {
		require.NoError(t, s.metrics.Flush(s.Clock.Now(), telemetry.Subject{}))
		got = telemetrytest.Metrics(t, s.numbers.Lines(t))
		return telemetrytest.Sum(got, name, dimensions...) > 0
	}, time.Minute, 5*time.Millisecond)
	return got
}

// TestTraceReachesTasks checks that the trace of POST /runs is passed to the
// Python task, sent by the http task, and logged by the worker.
func TestTraceReachesTasks(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.deploy(t, "traced",
		python("first", "trace"),
		task(object{"name": "call", "type": "http", "config": object{"url": s.elsewhere.URL + "/"}}, after("first")),
		task(object{"name": "own", "type": "http", "config": object{"url": s.elsewhere.URL + "/", "headers": object{"traceparent": "mine"}}}, after("call")),
		python("last", "trace", after("own")),
	)
	res := s.run(t, "traced", http.Header{"traceparent": {"00-" + traceID + "-b7ad6b7169203331-01"}}, nil)
	require.Equal(t, "SUCCEEDED", res.String(t, "status"), "%s", res.Body)

	request, ok := telemetry.ParseTrace(res.Header.Get("Traceresponse"))
	require.True(t, ok)
	assert.Equal(t, traceID, request.TraceID())
	spans := map[string]string{} // by task
	for i, name := range []string{"first", "call", "own", "last"} {
		record := res.Get(t, "task_runs", i).(object)
		require.Equal(t, name, record["task_name"])
		span := request.Span(record["task_run_id"].(string))
		spans[name] = span.SpanID()
		if name == "first" || name == "last" {
			assert.Equal(t, []any{span.String(), span.String()}, record["output"], "ctx.traceparent and $TRACEPARENT")
		}
	}
	require.Len(t, s.calls, 2)
	assert.Equal(t, "00-"+traceID+"-"+spans["call"]+"-01", s.calls[0].Get("Traceparent"))
	assert.Equal(t, []string{"mine"}, s.calls[1].Values("Traceparent"), "a header of the task's own stays")

	id := res.String(t, "run_id")
	var handled []telemetrytest.Line
	require.Eventually(t, func() bool { // the last line is written after the run's end
		handled = s.log.Said(t, "message handled")
		return len(handled) > 0 && handled[len(handled)-1]["task"] == "last"
	}, time.Minute, 5*time.Millisecond)
	for _, line := range handled {
		assert.Equal(t, []any{"DEBUG", "taskworker", s.A.OrgID, id, traceID},
			[]any{line["level"], line["function"], line["org_id"], line["run_id"], line["trace_id"]}, "%v", line)
	}
	last := handled[len(handled)-1]
	assert.Equal(t, []any{"last", 1.0, spans["last"]}, []any{last["task"], last["attempt"], last["span_id"]}, "%v", last)
}

// TestRunWithoutTraceStartsOne checks that all of its tasks have the same
// trace.
func TestRunWithoutTraceStartsOne(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.deploy(t, "untraced", python("first", "trace"), python("second", "trace", after("first")))
	res := s.run(t, "untraced", http.Header{"traceparent": {"nonsense"}}, nil)
	request, ok := telemetry.ParseTrace(res.Header.Get("Traceresponse"))
	require.True(t, ok)
	for i := range 2 {
		got, ok := telemetry.ParseTrace(res.String(t, "task_runs", i, "output", 0))
		require.True(t, ok)
		assert.Equal(t, request.TraceID(), got.TraceID())
	}
}

func after(names ...string) object { return object{"depends_on": names} }

// TestSecretsAreNotLogged checks that no secret, credential or value of the
// user's is in the service's log, however a run fails.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	s := open(t)
	config := object{"token": "${{ secrets.token }}"}
	call := func(name, url string) object {
		return task(object{"name": name, "type": "http", "config": object{
			"url": url + "?key=${{ secrets.token }}", "headers": object{"X-Token": "${{ secrets.token }}", "Authorization": "Bearer ${{ secrets.token }}"},
			"json": "${{ params.note }}",
		}})
	}
	s.deploy(t, "secretive",
		python("leak", "leak", object{"config": config, "retries": 1, "retry_backoff": object{"delay_secs": 0}}),
		python("nowhere", "no_such_function", object{"config": config}),
		call("repeated", s.elsewhere.URL+"/fail"),
		call("unreachable", "http://user:${{ secrets.token }}@127.0.0.1:1/"),
		call("denied", "http://169.254.169.254/latest"),
		task(object{"name": "broken", "type": "http", "config": object{"url": "http://[${{ secrets.token }}"}}),
	)
	header := http.Header{"Cookie": {"planted-cookie"}, "X-Planted": {"planted-header"}, "User-Agent": {"planted-agent"}}
	s.Do(t, s.A.Key, "GET", "/runs?planted=planted-query", nil).Require(t, 422)
	res := s.run(t, "secretive", header, object{"note": "planted-parameter"})
	require.Equal(t, "FAILED", res.String(t, "status"))
	id := res.String(t, "run_id")
	var history *localtest.Response
	require.Eventually(t, func() bool { // the log may lag
		history = s.Do(t, s.A.Key, "GET", "/runs/"+id+"/logs", nil).Require(t, 200)
		return strings.Contains(string(history.Body), "using ***") && strings.Contains(string(history.Body), "run_finished")
	}, time.Minute, 10*time.Millisecond, "the task did write it")
	require.Contains(t, string(res.Body), "refused: ***", "and failed with it")

	// Missing code: the sandbox cannot fetch it.
	s.deploy(t, "codeless", python("lost", "trace"))
	uri := s.Do(t, s.A.Key, "GET", "/flows/codeless/1", nil).Require(t, 200).String(t, "artifact_store_uri")
	require.NoError(t, s.Deps.Blob.Delete(t.Context(), strings.TrimPrefix(uri, "objstore://")))
	lost := s.run(t, "codeless", nil, nil)
	require.Equal(t, "FAILED", lost.String(t, "status"))
	require.Equal(t, "SandboxError", lost.String(t, "task_runs", 0, "error_type"), "%s", lost.Body)

	// An invalid message, and rejected requests.
	for _, credential := range []string{s.A.Key + "planted", "svc_planted-key-0123456789", "planted-token"} {
		s.Do(t, credential, "GET", "/runs?planted=planted-query", nil).Require(t, 401)
	}
	s.Do(t, s.A.Key, "POST", "/flows", "{\"planted\": \"planted-body\"}").Require(t, 422)
	require.NoError(t, s.Deps.Queues.Send(t.Context(), events.Tasks("nano"), message(t, events.Run{Kind: events.RunTask, Org: s.A.OrgID, Run: "planted-none"})))
	got := s.measured(t, "Errors", "Function", "taskworker")
	require.NotEmpty(t, s.log.Said(t, "message failed"))

	told := s.log.String() + s.numbers.String()
	for _, hidden := range []string{
		secret, s.A.Key, "planted-cookie", "planted-header", "planted-agent", "planted-parameter", "planted-query", "planted-body", "planted-key", "planted-token",
		"X-Amz-Signature=", "using ", "refused",
	} {
		if at := strings.Index(told, hidden); at >= 0 {
			assert.Fail(t, "told", "%q: %s", hidden, told[max(at-200, 0):min(at+200, len(told))])
		}
	}
	for _, shown := range []string{string(res.Body), string(history.Body), string(lost.Body)} {
		assert.NotContains(t, shown, secret, "the user's own view hides it too")
	}
	for _, m := range got {
		for _, value := range m.Dimensions {
			assert.False(t, strings.HasPrefix(value, "org_") || value == id || value == s.A.OrgID, "%+v", m)
		}
	}
}

func message(t *testing.T, m events.Run) queue.Message {
	t.Helper()
	body, err := json.Marshal(m)
	require.NoError(t, err)
	return queue.Message{Body: body, Group: m.Org}
}

// TestRunIsMeasured checks the metrics of a run from its acceptance to its end.
func TestRunIsMeasured(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.deploy(t, "counted",
		python("a", "trace"), python("b", "trace"), python("c", "no_such_function"),
		python("d", "trace", after("a", "b")), python("e", "trace", after("c")),
	)
	require.Equal(t, "FAILED", s.run(t, "counted", nil, nil).String(t, "status"))
	got := s.measured(t, "RunsFinished", "Tier", "nano", "Outcome", "FAILED")
	nano := func(name string, more ...string) float64 {
		return telemetrytest.Sum(got, name, slices.Concat([]string{"Tier", "nano"}, more)...)
	}
	assert.InDelta(t, 1, nano("RunsAccepted"), 0)
	assert.InDelta(t, 1, nano("RunsFinished"), 0)
	assert.InDelta(t, 3, nano("TasksFinished", "Outcome", "SUCCEEDED"), 0)
	assert.InDelta(t, 1, nano("TasksFinished", "Outcome", "FAILED"), 0)
	assert.InDelta(t, 1, nano("TasksFinished", "Outcome", "UPSTREAM_FAILED"), 0)
	assert.InDelta(t, 5, nano("TasksFinished"), 0)
	count := func(name string) (n int) {
		for _, m := range got {
			if m.Name == name {
				n += len(m.Values)
			}
		}
		return n
	}
	assert.Equal(t, 1, count("StartDelay"))
	assert.GreaterOrEqual(t, count("QueueDelay"), 3, "the start, and what it did not run itself")
	assert.GreaterOrEqual(t, nano("QueueDelay"), 0.0)
	assert.Less(t, nano("StartDelay"), 20_000.0)
	assert.Zero(t, nano("LeasesLost"))
	assert.InDelta(t, 1, telemetrytest.Sum(got, "Requests", "Function", "runs"), 0)
	assert.Zero(t, telemetrytest.Sum(got, "Errors"))
}
