//go:build unix

package interpreters_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/proc/proctest"
	"millrace/shared/run/sandbox"
)

// rig is a pool and the store of its artifacts.
type rig struct {
	*interpreters.Pool
	dir   string
	url   string
	gets  atomic.Int64
	mu    sync.Mutex
	blobs map[string][]byte // by path
	busy  []int             // statuses of the next answers to a PUT
}

func newRig(t testing.TB, change ...func(*interpreters.Config)) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), blobs: map[string][]byte{}}
	// Tasks that run as another user must reach their directories.
	require.NoError(t, os.Chmod(filepath.Dir(r.dir), 0o711))
	store := httptest.NewServer(r)
	t.Cleanup(store.Close)
	r.url = store.URL
	config := interpreters.Config{Dir: filepath.Join(r.dir, "data", "python")}
	for _, f := range change {
		f(&config)
	}
	pool, err := interpreters.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	r.Pool = pool
	return r
}

// ServeHTTP is a store that accepts and returns any object.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.busy) > 0 && req.Method == http.MethodPut {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(r.busy[0])
		r.busy = r.busy[1:]
		return
	}
	switch req.Method {
	case http.MethodPut:
		r.blobs[req.URL.Path], _ = io.ReadAll(req.Body)
	default:
		r.gets.Add(1)
		blob, ok := r.blobs[req.URL.Path]
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(blob)
	}
}

func (r *rig) put(path string, blob []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[path] = blob
}

// at returns a link to a URL.
func at(url string) sandbox.Link {
	return func(context.Context) (string, error) { return url, nil }
}

// request returns a request for a function in a module with the given source.
func (r *rig) request(t testing.TB, source, function string) sandbox.Request {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	out, err := w.Create("flow.py")
	require.NoError(t, err)
	_, err = io.WriteString(out, source)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	sum := sha256.Sum256(buf.Bytes())
	hash := hex.EncodeToString(sum[:])
	r.put("/"+hash, buf.Bytes())
	return sandbox.Request{
		Workspace: "acme", Tier: "nano", RunID: "run-1", FlowName: "daily", FlowVersion: "3", TaskName: "the-task", Attempt: 1,
		Artifact: sandbox.Artifact{Hash: hash, URL: at(r.url + "/" + hash)}, Entrypoint: "flow:" + function, Timeout: 20 * time.Second,
	}
}

// events collects log events.
type events struct {
	mu   sync.Mutex
	list []sandbox.LogEvent
}

func (e *events) add(event sandbox.LogEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, event)
}

func (e *events) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, event := range e.list {
		b.WriteString(event.Level + " " + event.Logger + " " + event.Message + "\n")
	}
	return b.String()
}

func (r *rig) run(t testing.TB, req sandbox.Request) (sandbox.Result, *events) {
	t.Helper()
	var log events
	result, err := r.Run(t.Context(), req, log.add)
	require.NoError(t, err, log.text())
	return result, &log
}

func output(t testing.TB, result sandbox.Result) string {
	t.Helper()
	require.Nil(t, result.Failure)
	return string(result.Output)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestArgumentsByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("/big", []byte(`{"from": "url"}`))
	req := r.request(t, `
from millrace import task

@task(retries=2)
def add(ctx, item, index, up_stream, big, day, limit=7, *, region):
    return [ctx.run_id, ctx.flow_name, ctx.task_name, ctx.attempt, ctx.params["day"], ctx.secret("token"),
            item, index, up_stream, big, day, limit, region]
`, "add")
	index := 4
	req.MapIndex, req.Item = &index, raw(`{"a": 1}`)
	req.Inputs = map[string]sandbox.Input{
		"up-stream": {Value: raw(`[1, 2]`)}, "big": {URL: at(r.url + "/big")}, "unused": {URL: at("http://127.0.0.1:1/never-fetched")},
	}
	req.Params = map[string]json.RawMessage{"day": raw(`"monday"`), "region": raw(`"eu"`), "big": raw(`"shadowed"`)}
	req.Secrets = map[string]string{"token": "s3cret"}
	result, _ := r.run(t, req)
	assert.JSONEq(t, `["run-1", "daily", "the-task", 1, "monday", "s3cret", {"a": 1}, 4, [1, 2], {"from": "url"}, "monday", 7, "eu"]`,
		output(t, result))
}

func TestFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = `
import math, sys, time
def needs(nothing_has_this): pass
def divides(): return 1 / 0
def sleeps(): time.sleep(60)
def swallows():
    while True:
        try: time.sleep(60)
        except BaseException: pass
def infinite(): return {"rows": [1.0, math.inf]}
def keys(): return [{1: 2}]
def thing(): return {"when": object()}
def exits(): sys.exit(3)
def interrupts(): raise KeyboardInterrupt
def hungry(): return len(bytearray(1 << 30))
def deep():
    x = []
    for _ in range(500): x = [x]
    return x
`
	tests := []struct{ function, kind, message, log string }{
		{"needs", sandbox.TaskFailedError, "'nothing_has_this'", ""},
		{"divides", sandbox.TaskFailedError, "ZeroDivisionError: division by zero", "error traceback Traceback (most recent call last):\n  File"},
		{"sleeps", sandbox.TaskTimeoutError, "timeout_secs (0.2)", ""},
		{"swallows", sandbox.TaskTimeoutError, "was killed", ""},
		{"infinite", sandbox.ArtifactSerializationError, "the output.rows[1] is inf", ""},
		{"keys", sandbox.ArtifactSerializationError, "keys of JSON objects are strings", ""},
		{"thing", sandbox.ArtifactSerializationError, "the output.when is of type builtins.object", ""},
		{"deep", sandbox.ArtifactSerializationError, "levels deep", ""},
		{"exits", sandbox.TaskFailedError, "SystemExit: the task called exit with 3", ""},
		{"interrupts", sandbox.TaskFailedError, "KeyboardInterrupt", "traceback"},
		{"hungry", sandbox.TaskFailedError, "MB of nano's 256 MB of memory; the next larger tier is execution_mode micro with 512 MB", ""},
		{"missing", sandbox.TaskFailedError, "has no 'missing'", ""},
	}
	for _, tc := range tests {
		t.Run(tc.function, func(t *testing.T) {
			t.Parallel()
			req := r.request(t, source, tc.function)
			if tc.kind == sandbox.TaskTimeoutError {
				req.Timeout = 200 * time.Millisecond
			}
			result, log := r.run(t, req)
			require.NotNil(t, result.Failure)
			assert.Equal(t, tc.kind, result.Failure.Type)
			assert.Contains(t, result.Failure.Message, tc.message)
			assert.Contains(t, log.text(), tc.log)
			assert.NotContains(t, log.text(), "core.py", "the runner's own frames are no business of the author")
		})
	}
}

func TestBadArtifactFailsTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put("/bad", []byte("no zip"))
	result, _ := r.run(t, sandbox.Request{Workspace: "acme", Artifact: sandbox.Artifact{Hash: "../../bad", URL: at(r.url + "/bad")}, Entrypoint: "a:b"})
	require.NotNil(t, result.Failure)
	assert.Contains(t, result.Failure.Message, "not a readable zip")

	_, err := r.Run(t.Context(), sandbox.Request{Artifact: sandbox.Artifact{Hash: "gone", URL: at(r.url + "/gone?sig=verysecret")}}, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "gone from the object store")
	_, err = r.Run(t.Context(), sandbox.Request{Artifact: sandbox.Artifact{Hash: "down", URL: at("http://127.0.0.1:1/?sig=verysecret")}}, func(sandbox.LogEvent) {})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "verysecret")
}

func TestAllOutputBecomesEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, `
import ctypes, logging, os, subprocess, sys
def talk(ctx):
    print("one"); ctx.log("two", rows=3); print("three", file=sys.stderr)
    logging.getLogger("my.lib").warning("four %s", 4)
    logging.getLogger("my.lib").debug("unheard")
    print("no newline", end="")
    os.write(1, b"from the descriptor\n")
    subprocess.run(["sh", "-c", "echo from a child; echo its trouble >&2"], check=True)
    ctypes.CDLL(None).puts(b"from C")
    sys.stdout.buffer.write(b"bytes\n")
`, "talk")
	result, log := r.run(t, req)
	assert.Equal(t, "null", output(t, result))
	text := log.text()
	ordered := "info stdout one\ninfo task two\nwarning stderr three\nwarning my.lib four 4\n"
	var pythonOnly []string
	for line := range strings.Lines(text) {
		if strings.Contains(ordered, line) {
			pythonOnly = append(pythonOnly, line)
		}
	}
	assert.Equal(t, ordered, strings.Join(pythonOnly, ""), "what Python writes keeps its order")
	for _, line := range []string{"info stdout no newline\n", "info stdout from the descriptor\n", "info stdout from a child\n",
		"warning stderr its trouble\n", "info stdout from C\n", "info stdout bytes\n"} {
		assert.Contains(t, text, line)
	}
	assert.NotContains(t, text, "unheard")
}

// The task waits for an answer that is given only after its line has arrived.
func TestOutputIsLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, function := range []string{"through_python", "through_descriptor"} {
		seen := make(chan struct{})
		gate := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-seen }))
		req := r.request(t, `
import os, urllib.request
def wait(url): return urllib.request.urlopen(url, timeout=15).status
def through_python(url): print("knock"); return wait(url)
def through_descriptor(url): os.write(1, b"knock\n"); return wait(url)
`, function)
		req.Params = map[string]json.RawMessage{"url": raw(`"` + gate.URL + `"`)}
		result, err := r.Run(t.Context(), req, func(e sandbox.LogEvent) {
			if e.Message == "knock" {
				close(seen)
			}
		})
		gate.Close()
		require.NoError(t, err)
		assert.Equal(t, "200", output(t, result), function)
	}
}

func TestLargeOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = "def big(n): return 'x' * n\n"
	req := r.request(t, source, "big")
	req.Params = map[string]json.RawMessage{"n": raw("20971520")}
	result, _ := r.run(t, req)
	assert.Len(t, output(t, result), 20971522)
	assert.EqualValues(t, 20971522, result.OutputBytes)
	assert.False(t, result.Uploaded)

	req.OutputURL = at(r.url + "/out")
	result, _ = r.run(t, req)
	require.Nil(t, result.Failure)
	assert.True(t, result.Uploaded)
	assert.Nil(t, result.Output)
	assert.EqualValues(t, 20971522, result.OutputBytes)
	r.mu.Lock()
	assert.Len(t, r.blobs["/out"], 20971522)
	r.mu.Unlock()

	req.Params["n"] = raw("32766") // 32 KB with its quotes
	result, _ = r.run(t, req)
	assert.False(t, result.Uploaded)
	assert.Len(t, output(t, result), 32768)
}

func TestUploadFailureIsInfrastructureError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, "def big(): return 'x' * 100000\n", "big")
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denied.Close()
	req.OutputURL = at(denied.URL + "/?sig=verysecret")
	_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorContains(t, err, "the output could not be stored")
	assert.NotContains(t, err.Error(), "verysecret")
}

func TestMain(m *testing.M) {
	proctest.Play(map[string]func(string) error{"serve": serve})
	os.Exit(m.Run())
}
