package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/cloud"
	"millrace/localstack/cloud/cloudtest"
)

type object = map[string]any

// sample returns an event in events/samples.
func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "events", "samples", name+".json"))
	require.NoError(t, err)
	return data
}

func transform(name, expression string, after ...string) object {
	return object{"name": name, "type": "transform", "depends_on": after, "config": object{"expression": expression}}
}

func register(t *testing.T, c *cloudtest.Cloud, flow string, tasks ...object) {
	t.Helper()
	var out struct {
		FlowName string `json:"flow_name"`
	}
	require.NoError(t, c.Client.Do(t.Context(), "POST", "/flows", object{
		"flow_name": flow, "flow_version": "1", "flow_spec": object{"tasks": tasks},
	}, &out))
	require.Equal(t, flow, out.FlowName)
}

// finish waits until a run has succeeded.
func finish(t *testing.T, c *cloudtest.Cloud, id string) client.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	run, err := c.Client.Watch(ctx, id, 50*time.Millisecond, nil)
	require.NoError(t, err, "the run is %s: %+v", run.Status, run.TaskRuns)
	require.Equal(t, "SUCCEEDED", run.Status, "%s: %+v", run.ErrorMessage, run.TaskRuns)
	return run
}

// deploy uploads a flow with one Python file.
func deploy(t *testing.T, c *cloudtest.Cloud, flow, source string, tasks ...object) {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("flow.py")
	require.NoError(t, err)
	_, err = f.Write([]byte(source))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	spec, err := json.Marshal(object{"tasks": tasks})
	require.NoError(t, err)
	_, err = c.Client.Upload(t.Context(), client.Upload{FlowName: flow, FlowVersion: "1", DeploymentName: flow, Spec: spec, Zip: buf.Bytes()})
	require.NoError(t, err)
}

// TestFlowFromRegistrationToEnd takes one step after the other, each on the
// real binary.
func TestFlowFromRegistrationToEnd(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	var health struct {
		Status, Version string
		Components      []struct{ Name, Status, Message string }
	}
	require.NoError(t, c.Client.Do(t.Context(), "GET", "/health", nil, &health))
	assert.Equal(t, "healthy", health.Status, "%+v", health.Components)
	assert.Equal(t, cloudtest.Version, health.Version)

	register(t, c, "sums", transform("one", "1"), transform("two", "tasks.one.output + params.more", "one"))
	run, err := c.Client.Start(t.Context(), client.RunRequest{FlowName: "sums", FlowVersion: "1", Parameters: object{"more": 41}})
	require.NoError(t, err)
	n, err := c.Deliver(t.Context(), "tasks-nano", 5)
	require.NoError(t, err)
	require.Equal(t, 1, n, "a run is one message in SQS")
	got := finish(t, c, run.RunID)
	assert.JSONEq(t, `42`, string(got.Task("two")[0].Output))
	n, err = c.Deliver(t.Context(), "tasks-nano", 0)
	require.NoError(t, err)
	assert.Zero(t, n, "the message was deleted, and the worker stayed warm")

	log, err := c.Client.Log(t.Context(), run.RunID)
	require.NoError(t, err)
	var types []string
	for _, e := range log {
		types = append(types, e.EventType)
	}
	assert.Equal(t, []string{"run_started", "task_started", "task_succeeded", "task_started", "task_succeeded", "run_finished"}, types)
	var list struct{ Items []client.Run }
	require.NoError(t, c.Client.Do(t.Context(), "GET", "/runs", nil, &list))
	assert.Len(t, list.Items, 1)
}

// TestEveryFunctionAcceptsItsSamples checks that the deployed functions accept
// the events in events/samples.
func TestEveryFunctionAcceptsItsSamples(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	invoke := func(name string, payload []byte) string {
		answer, err := c.Invoke(t.Context(), name, payload)
		require.NoError(t, err, name)
		data, err := answer.Bytes()
		require.NoError(t, err, name)
		return string(data)
	}
	var res events.APIGatewayProxyResponse
	require.NoError(t, json.Unmarshal([]byte(invoke("health", sample(t, "api-health"))), &res))
	assert.Equal(t, 200, res.StatusCode)
	assert.Contains(t, res.Body, `"status":"healthy"`)
	assert.Equal(t, []string{"01K5SAMPLE0000000000000002"}, res.MultiValueHeaders["X-Request-Id"], "the gateway's id")

	assert.JSONEq(t, `{"status": "processed", "checked": 0, "triggered": 0, "failures": 0}`, invoke("scheduler-tick", sample(t, "scheduler-tick")))
	for _, name := range []string{"run-start", "run-task", "run-walk"} {
		// The run in the samples does not exist, so each message is to be delivered
		// again.
		assert.JSONEq(t, `{"batchItemFailures": [{"itemIdentifier": "059f36b4-87a3-44ab-83d2-661975830a7d"}]}`, invoke("taskworker", sample(t, name)), name)
	}
	assert.JSONEq(t, `{"batchItemFailures": null}`, invoke("dispatch", sample(t, "run-look")), "there is nothing to look at")
	_, err := c.Invoke(t.Context(), "scheduler-tick", []byte(`{"event_type": "other"}`))
	require.ErrorContains(t, err, "event_type")
	_, err = c.Invoke(t.Context(), "runs", []byte(`{}`))
	require.ErrorContains(t, err, "not an API Gateway proxy event")
}

// TestGatewayRequests sends a request to every HTTP function.
func TestGatewayRequests(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	register(t, c, "one", transform("one", "1"))
	for path, want := range map[string]int{
		"/flows":                         200,
		"/flows/one/1":                   200,
		"/flows/one/latest":              200,
		"/flows/a%20%C3%BC%2F%25/latest": 422,
		"/deployments":                   200,
		"/backends":                      200,
		"/runs?limit=1":                  200,
		"/runs/nothing":                  404,
		"/orgs":                          200,
		"/api-keys":                      200,
		"/nothing":                       404,
		"/nothing/":                      404,
		"/runs/?limit=1":                 200, // by a redirect
		"/flows/one/latest/":             200,
		"/":                              200,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.Client.Token)
		req.Header.Set("X-Forwarded-For", "203.0.113.7")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err, path)
		assert.Equal(t, want, res.StatusCode, path)
		assert.NotEmpty(t, res.Header.Get("X-Request-Id"), path)
		require.NoError(t, res.Body.Close())
	}
	for url, want := range map[string]int{c.URL: 404, c.FunctionURL(c.Prefix + "sandboxlogs"): 401} {
		res, err := http.Post(url+"/internal/attempts/logs", "application/json", strings.NewReader(`{"events": []}`))
		require.NoError(t, err)
		assert.Equal(t, want, res.StatusCode, "the routes of sandboxes are not in the API")
		assert.NotEmpty(t, res.Header.Get("X-Request-Id"))
		require.NoError(t, res.Body.Close())
	}
}

// TestConsoleServesDescription uses only the console function: the bootstrap
// behind the gateway, which streams compressed files.
func TestConsoleServesDescription(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	get := func(method, path, tag string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, nil)
		require.NoError(t, err)
		if tag != "" {
			req.Header.Set("If-None-Match", tag)
		}
		res, err := http.DefaultClient.Do(req) // requests gzip and decompresses it
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res, string(data)
	}
	res, body := get("GET", "/openapi.json", "")
	assert.Equal(t, 200, res.StatusCode, body)
	var doc struct {
		Paths   map[string]any
		Servers []struct{ URL string }
		Info    struct{ Version string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	for _, op := range catalog.Public(catalog.Operations(catalog.All())) {
		assert.Contains(t, doc.Paths, op.Path)
	}
	require.Len(t, doc.Servers, 1)
	assert.Equal(t, c.URL, doc.Servers[0].URL)
	assert.Equal(t, cloudtest.Version, doc.Info.Version)
	assert.True(t, res.Uncompressed, "it came packed")
	res, body = get("GET", "/openapi.json", res.Header.Get("ETag"))
	assert.Equal(t, http.StatusNotModified, res.StatusCode)
	assert.Empty(t, body)

	res, body = get("GET", "/", "")
	assert.Equal(t, "/docs", res.Request.URL.Path)
	script, _, found := strings.Cut(body[strings.Index(body, `src=".`)+6:], `"`)
	require.True(t, found, body)
	res, body = get("GET", script, "")
	assert.Equal(t, 200, res.StatusCode)
	assert.Greater(t, len(body), 3<<20)

	res, body = get("GET", "/docs/flow-spec", "")
	assert.Equal(t, 200, res.StatusCode, body)
	assert.Contains(t, body, "trigger_rule")
	assert.True(t, res.Uncompressed, "it came packed")
	res, _ = get("GET", "/docs/nothing", "")
	assert.Equal(t, 404, res.StatusCode)

	res, body = get("DELETE", "/runs", "")
	assert.Equal(t, 405, res.StatusCode)
	assert.Equal(t, []string{"GET", "POST"}, res.Header.Values("Allow"))
	assert.JSONEq(t, `{"detail": "Method Not Allowed"}`, body)
}

const source = `
import os, time
def slow():
    print("began")
    time.sleep(60)
def show(word, ctx):
    print("printed", word)
    ctx.log("logged " + ctx.task_name)
    return {"word": word, "env": sorted(os.environ), "values": list(os.environ.values())}
def each(item):
    print("item", item)
    return item * 2
def large(): return "x" * 100000
def total(each, large): return [each, len(large)]
def save(ctx):
    with open("numbers.bin", "wb") as file: file.write(bytes(range(250)) * 20972)
    return {"kept": [ctx.save_file("numbers.bin")]}
def greedy():
    import os, signal
    held = b"x" * (200 << 20)
    os.kill(os.getpid(), signal.SIGKILL) # as the kernel does
def read(save):
    data = save["kept"][0].read_bytes()
    return [len(data), data == bytes(range(250)) * 20972]
`

// TestPythonRunsInSandboxFunctions: from the gateway through queue, worker and
// Invoke to the handler, and back through the answer, presigned URLs and the
// log route.
func TestPythonRunsInSandboxFunctions(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	c.Feed(t, "tasks-nano", "runs")
	python := func(name string, after ...string) object {
		return object{"name": name, "type": "python", "entrypoint": "flow:" + name, "depends_on": after}
	}
	each := python("each")
	each["map_over"] = "[1, 2, 3]"
	deploy(t, c, "py", source, python("show"), each, python("large"), python("total", "each", "large"),
		python("save"), python("read", "save"))
	// The response is streamed until the run has ended.
	run, err := c.Client.Start(t.Context(), client.RunRequest{Deployment: "py", Parameters: object{"word": "tea"}, Execute: true})
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", run.Status, "%s: %+v", run.ErrorMessage, run.TaskRuns)
	run = finish(t, c, run.RunID)
	assert.JSONEq(t, `[[2, 4, 6], 100000]`, string(run.Task("total")[0].Output))
	assert.JSONEq(t, `[5243000, true]`, string(run.Task("read")[0].Output), "a file of 5 MB went from one task to another")
	assert.Contains(t, string(run.Task("save")[0].Output), `"key":"runs/`+run.RunID+`/out/`)
	shown := string(run.Task("show")[0].Output)
	assert.Contains(t, shown, `"word":"tea"`)
	assert.NotContains(t, shown, cloud.RoleSecret, "a task sees no credential")
	assert.NotContains(t, shown, "AWS_")

	log, err := c.Client.Log(t.Context(), run.RunID)
	require.NoError(t, err)
	at := map[string]int{}
	for i, e := range log {
		at[e.TaskName+"/"+e.Message] = i + 1
	}
	for _, line := range []string{"show/printed tea", "show/logged show", "each/item 1", "each/item 2", "each/item 3"} {
		assert.NotZero(t, at[line], "%s is in the archive: %v", line, at)
	}
	assert.Equal(t, "run_finished", log[len(log)-1].EventType)

	deploy(t, c, "greedy", source, python("greedy"))
	run, err = c.Client.Start(t.Context(), client.RunRequest{Deployment: "greedy", Execute: true})
	require.NoError(t, err)
	task := run.Task("greedy")[0]
	assert.Equal(t, "TaskFailedError", task.ErrorType)
	assert.Equal(t, "the task used all of nano's 256 MB of memory; the next larger tier is execution_mode micro with 512 MB", task.ErrorMessage)
}

// TestCancelReachesSandbox: the fence stops the attempt in the worker and,
// through the response of the log route, in the sandbox, whose environment is
// free for the next task at once.
func TestCancelReachesSandbox(t *testing.T) {
	t.Parallel()
	c := cloudtest.Open(t, binary)
	c.Feed(t, "tasks-nano", "runs")
	deploy(t, c, "py", source, object{"name": "slow", "type": "python", "entrypoint": "flow:slow"})
	run, err := c.Client.Start(t.Context(), client.RunRequest{Deployment: "py"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	require.Eventually(t, func() bool { return strings.Contains(logOf(t, c, run.RunID), "began") }, 30*time.Second, 100*time.Millisecond,
		"the log is live")
	require.NoError(t, c.Client.Do(ctx, "POST", "/runs/"+run.RunID+"/cancel", nil, nil))
	got, err := c.Client.Watch(ctx, run.RunID, 100*time.Millisecond, nil)
	require.NoError(t, err)
	assert.Equal(t, "CANCELLED", got.Status)
	assert.Equal(t, "CANCELLED", got.Task("slow")[0].Status)
	require.Eventually(t, func() bool { return c.Idle("sandbox-nano", c.OrgID) == 1 }, 15*time.Second, 50*time.Millisecond,
		"the task was killed in the sandbox too")
}

// logOf returns a page of a run's log.
func logOf(t *testing.T, c *cloudtest.Cloud, id string) string {
	t.Helper()
	var page json.RawMessage
	require.NoError(t, c.Client.Do(t.Context(), "GET", "/runs/"+id+"/logs", nil, &page))
	return string(page)
}
