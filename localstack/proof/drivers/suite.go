package drivers

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/shared/platform/ids"
)

// Exercise runs the end-to-end tests over one set of drivers.
func Exercise(t *testing.T, drivers Drivers) { Suite(t, Open(t, drivers)) }

// Suite runs the end-to-end tests against a service, only through its API. The
// service must allow calls to this machine. Flow names are unique in each run.
func Suite(t *testing.T, s *Service) {
	s.mark = "-" + strings.ToLower(ids.Slug())
	for _, c := range []struct {
		name string
		test func(*testing.T, *Service)
	}{
		{"PythonFlow", testPythonFlow},
		{"RetryFromFailed", testRetryFromFailed},
		{"Cancel", testCancel},
		{"Shapes", testShapes},
		{"LargeOutput", testLargeOutput},
		{"Idempotency", testIdempotency},
		{"OtherWorkspace", testOtherWorkspace},
		{"Health", testHealth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c.test(t, s)
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
		})
	}
}

type object = map[string]any

// code is a module of tasks.
const code = `
import time

def make(ctx, n):
    print("making", n)
    return list(range(n))

def square(item, index):
    assert item == index
    return item * item

def total(square):
    return sum(square)

def slow(ctx):
    print("sleeping")
    time.sleep(120)

def large():
    return "x" * 300_000

def measure(large):
    return len(large)
`

func python(name string, deps ...string) object {
	t := object{"name": name, "type": "python", "entrypoint": "tasks:" + name}
	if len(deps) > 0 {
		t["depends_on"] = deps
	}
	return t
}

func transform(name, expression string, deps ...string) object {
	t := object{"name": name, "type": "transform", "config": object{"expression": expression}}
	if len(deps) > 0 {
		t["depends_on"] = deps
	}
	return t
}

// name returns the flow's name in this run of the suite.
func (s *Service) name(flow string) string { return flow + s.mark }

// request returns a request to run a flow without code.
func (s *Service) request(flow string) client.RunRequest {
	return client.RunRequest{FlowName: s.name(flow), FlowVersion: "1"}
}

// upload uploads the code in parts through presigned URLs and deploys it.
func (s *Service) upload(t *testing.T, flow string, tasks ...object) {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("tasks.py")
	require.NoError(t, err)
	_, err = f.Write([]byte(code))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	spec, err := json.Marshal(object{"tasks": tasks})
	require.NoError(t, err)
	got, err := s.Client.Upload(t.Context(), client.Upload{FlowName: s.name(flow), FlowVersion: "1", DeploymentName: s.name(flow), Spec: spec, Zip: buf.Bytes()})
	require.NoError(t, err)
	assert.Equal(t, 1, got.DeploymentVersion)
}

// register registers a flow without code.
func (s *Service) register(t *testing.T, flow string, tasks ...object) {
	t.Helper()
	body := object{"flow_name": s.name(flow), "flow_version": "1", "flow_spec": object{"tasks": tasks}}
	require.NoError(t, s.Client.Do(t.Context(), http.MethodPost, "/flows", body, nil))
}

func (s *Service) execute(t *testing.T, in client.RunRequest) client.Run {
	t.Helper()
	in.Execute = true
	run, err := s.Client.Start(t.Context(), in)
	require.NoError(t, err)
	return run
}

func testPythonFlow(t *testing.T, s *Service) {
	each := python("square", "make")
	each["map_over"] = "tasks.make.output"
	s.upload(t, "squares", python("make"), each, python("total", "square"))
	run := s.execute(t, client.RunRequest{Deployment: s.name("squares"), Parameters: object{"n": 7}})
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	assert.JSONEq(t, "91", string(run.Task("total")[0].Output))
	assert.Len(t, run.Task("square"), 7)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	log, err := s.Client.Log(ctx, run.RunID)
	require.NoError(t, err)
	assert.True(t, slices.ContainsFunc(log, func(e client.LogEvent) bool { return e.Message == "making 7" && e.TaskName == "make" }), "%+v", log)
	// If several processes write a log, their batches are in the order in which
	// they were stored.
	assert.True(t, slices.ContainsFunc(log, func(e client.LogEvent) bool { return e.EventType == "run_started" }), "%+v", log)
	assert.Equal(t, "run_finished", log[len(log)-1].EventType)
}

func testRetryFromFailed(t *testing.T, s *Service) {
	var up atomic.Bool
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "page")
	}))
	defer page.Close()
	call := object{"name": "call", "type": "http", "depends_on": []string{"first"}, "config": object{"url": page.URL}}
	s.register(t, "calls", transform("first", "21"), call, transform("last", "tasks.first.output * 2", "first", "call"))
	failed := s.execute(t, s.request("calls"))
	assert.Equal(t, "FAILED", failed.Status)
	assert.Contains(t, failed.ErrorMessage, "503")
	up.Store(true)
	again, err := s.Client.RetryFromFailed(t.Context(), failed.RunID)
	require.NoError(t, err)
	assert.Equal(t, []string{"first"}, again.SkipTaskIDs)
	run, err := s.Client.Watch(t.Context(), again.RunID, 50*time.Millisecond, nil)
	require.NoError(t, err)
	assert.Equal(t, "SUCCEEDED", run.Status)
	assert.Equal(t, "REUSED", run.Task("first")[0].Status)
	assert.JSONEq(t, "42", string(run.Task("last")[0].Output))
}

func testCancel(t *testing.T, s *Service) {
	s.upload(t, "sleeper", python("slow"), python("make", "slow"))
	run, err := s.Client.Start(t.Context(), client.RunRequest{Deployment: s.name("sleeper"), Parameters: object{"n": 1}})
	require.NoError(t, err)
	_, err = s.Client.Watch(t.Context(), run.RunID, 50*time.Millisecond, func(r client.Run) {
		if tasks := r.Task("slow"); r.Status == "RUNNING" && len(tasks) == 1 && tasks[0].Status == "RUNNING" {
			require.NoError(t, s.Client.Do(t.Context(), http.MethodPost, "/runs/"+run.RunID+"/cancel", nil, nil))
		}
	})
	require.NoError(t, err)
	run, err = s.Client.Run(t.Context(), run.RunID)
	require.NoError(t, err)
	assert.Equal(t, "CANCELLED", run.Status)
	assert.Equal(t, "CANCELLED", run.Task("slow")[0].Status)
	assert.Equal(t, "CANCELLED", run.Task("make")[0].Status)
	assert.Less(t, run.DurationMS, int64(60_000))
}

func testShapes(t *testing.T, s *Service) {
	chain := []object{transform("t0", "0")}
	for i := 1; i < 40; i++ {
		chain = append(chain, transform(fmt.Sprintf("t%d", i), fmt.Sprintf("tasks.t%d.output + 1", i-1), fmt.Sprintf("t%d", i-1)))
	}
	s.register(t, "chain", chain...)
	run := s.execute(t, s.request("chain"))
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	assert.JSONEq(t, "39", string(run.Task("t39")[0].Output))
	t.Logf("40 in sequence: %d ms", run.DurationMS)

	var wide []object
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("p%d", i))
		wide = append(wide, transform(names[i], fmt.Sprint(i)))
	}
	sum := strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, n := range names[:20] {
			if !yield("tasks." + n + ".output") {
				return
			}
		}
	}), " + ")
	s.register(t, "wide", append(wide, transform("join", sum, names...))...)
	run = s.execute(t, s.request("wide"))
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	assert.JSONEq(t, "190", string(run.Task("join")[0].Output))
	t.Logf("100 side by side and a join: %d ms", run.DurationMS)

	each := transform("each", "item + index", "list")
	each["map_over"] = "tasks.list.output"
	s.register(t, "mapped", transform("list", "lists.range(150)"), each, transform("sum", "tasks.each.output[149]", "each"))
	run = s.execute(t, s.request("mapped"))
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	assert.JSONEq(t, "298", string(run.Task("sum")[0].Output))
	assert.Len(t, run.Task("each"), 150)
	t.Logf("150 mapped: %d ms", run.DurationMS)
}

func testLargeOutput(t *testing.T, s *Service) {
	s.upload(t, "large", python("large"), python("measure", "large"), transform("size", "size(tasks.large.output)", "large"))
	run := s.execute(t, client.RunRequest{Deployment: s.name("large")})
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	assert.JSONEq(t, "300000", string(run.Task("measure")[0].Output))
	assert.JSONEq(t, "300000", string(run.Task("size")[0].Output))
}

func testIdempotency(t *testing.T, s *Service) {
	s.register(t, "once", transform("a", "1"))
	request := s.request("once")
	request.IdempotencyKey = "k1" + s.mark
	runs := map[string]bool{}
	for range 5 {
		run, err := s.Client.Start(t.Context(), request)
		require.NoError(t, err)
		runs[run.RunID] = true
	}
	assert.Len(t, runs, 1)
	request.Parameters = object{"x": 1}
	_, err := s.Client.Start(t.Context(), request)
	requireStatus(t, http.StatusUnprocessableEntity, err)
}

func requireStatus(t *testing.T, want int, err error) {
	t.Helper()
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, want, refused.Status, refused.Body)
}

func testOtherWorkspace(t *testing.T, s *Service) {
	s.register(t, "private", transform("a", "1"))
	run := s.execute(t, s.request("private"))
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/runs/" + run.RunID},
		{http.MethodGet, "/runs/" + run.RunID + "/logs"},
		{http.MethodPost, "/runs/" + run.RunID + "/cancel"},
		{http.MethodPost, "/runs/" + run.RunID + "/retry"},
		{http.MethodPost, "/runs/" + run.RunID + "/retry-from-failed"},
		{http.MethodGet, "/flows/" + s.name("private") + "/latest"},
		{http.MethodGet, "/flows/" + s.name("private") + "/1"},
		{http.MethodDelete, "/flows/" + s.name("private")},
	} {
		requireStatus(t, http.StatusNotFound, s.Stranger.Do(t.Context(), c.method, c.path, nil, nil))
	}
	for _, path := range []string{"/runs", "/flows"} {
		var list struct{ Items []any }
		require.NoError(t, s.Stranger.Do(t.Context(), http.MethodGet, path, nil, &list))
		assert.Empty(t, list.Items, path)
	}
}

func testHealth(t *testing.T, s *Service) {
	health, err := s.Client.WaitHealthy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "healthy", health.Status)
}
