//go:build unix

package interpreters_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

// TestImportDoesNotCountAsTaskTime imports a module for longer than the task's
// timeout: the task succeeds, and the begin of its function is reported once.
func TestImportDoesNotCountAsTaskTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var begun atomic.Int64
	req := r.request(t, "import time\ntime.sleep(1.5)\ndef f(up): return up\ndef forges():\n import gc\n"+
		" c = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n for _ in range(3): c.write((b'B', b'function'))\n", "f")
	req.Timeout = time.Second
	req.Begin = func(time.Duration) { begun.Add(1) }
	r.put("/up", []byte("7"))
	req.Inputs = map[string]sandbox.Input{"up": {URL: at(r.url + "/up")}}
	result, _ := r.run(t, req)
	assert.Equal(t, "7", output(t, result))
	assert.EqualValues(t, 1, begun.Load())
	assert.True(t, r.TellsStart())

	req.Entrypoint = "flow:forges"
	result, _ = r.run(t, req)
	assert.Equal(t, "null", output(t, result))
	assert.EqualValues(t, 2, begun.Load(), "what a task writes of its begin begins nothing")
}

// TestWarmTaskBegins checks that a task whose module is imported begins with its
// request, without a report of the child, unless an input is fetched first: that
// does not count as its time.
func TestWarmTaskBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var begun, fetchedBefore atomic.Int64
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetchedBefore.Store(begun.Load())
		w.Header().Set("Content-Length", "1")
		_, _ = w.Write([]byte("7"))
	}))
	t.Cleanup(far.Close)
	const source = `
import gc, time
def f(up): return up
def reports():
    c = next(o for o in gc.get_objects() if type(o).__name__ == "Channel")
    told, write = [], c.write
    def keep(*frames): told.extend(kind for kind, _ in frames); write(*frames)
    c.write = keep
    return told
def told():
    c = next(o for o in gc.get_objects() if type(o).__name__ == "Channel")
    return [kind.decode() for kind in c.write.__closure__[0].cell_contents]
def stays():
    while True:
        try: time.sleep(60)
        except BaseException: pass
`
	call := func(function string, timeout time.Duration, inputs map[string]sandbox.Input) sandbox.Result {
		t.Helper()
		req := r.request(t, source, function)
		req.Timeout, req.Inputs = timeout, inputs
		req.Begin = func(ago time.Duration) { begun.Add(1); assert.Zero(t, ago) }
		result, _ := r.run(t, req)
		return result
	}
	inline := map[string]sandbox.Input{"up": {Value: json.RawMessage("1")}}
	for want := range int64(3) {
		assert.Equal(t, "1", output(t, call("f", time.Second, inline)))
		assert.Equal(t, want+1, begun.Load(), "the first and a warm one begin once")
	}
	assert.Equal(t, "7", output(t, call("f", time.Second, map[string]sandbox.Input{"up": {URL: at(far.URL)}})))
	assert.EqualValues(t, 4, begun.Load())
	assert.EqualValues(t, 3, fetchedBefore.Load(), "it begins once its input is there")

	require.Nil(t, call("reports", time.Second, nil).Failure)
	require.Nil(t, call("told", time.Second, nil).Failure)
	require.Nil(t, call("f", time.Second, inline).Failure)
	assert.JSONEq(t, `["O", "R", "B", "O", "R", "O", "R"]`, output(t, call("told", time.Second, nil)), "only the first call of told was reported")
	assert.EqualValues(t, 8, begun.Load())

	for range 2 { // the second is a new interpreter's first
		result := call("stays", 300*time.Millisecond, nil)
		require.NotNil(t, result.Failure)
		assert.Equal(t, "the task ran past its timeout_secs (0.3) and was killed", result.Failure.Message)
	}
}

// TestImportTimeout checks that the task times out with a message about the
// import, whether or not the import can be interrupted.
func TestImportTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { interpreters.SetImporting(c, 300*time.Millisecond) })
	for _, source := range []string{
		"import time\ntime.sleep(60)\n",
		"import time\nwhile True:\n try: time.sleep(60)\n except BaseException: pass\n",
	} {
		result, _ := r.run(t, r.request(t, source, "f"))
		require.NotNil(t, result.Failure)
		assert.Equal(t, sandbox.TaskTimeoutError, result.Failure.Type)
		assert.Contains(t, result.Failure.Message, "importing the module of flow:f took longer than the 0.3 s that it has")
	}
}

// TestFailuresHaveTraceback checks class and traceback of the exception of a
// task: relative to the artifact's root, without the runner's frames, and
// bounded.
func TestFailuresHaveTraceback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = `
import asyncio, time
class Odd(ConnectionError): pass
def helper(): raise Odd("no route")
def chained():
    try: helper()
    except Odd as e: raise ValueError("after all") from e
def nosecret(ctx): ctx.secret("absent")
def needs(nothing): pass
async def waits(): helper()
def deep(n=300):
    if n: deep(n - 1) if n % 2 else deep(n=n - 1)
    else: helper()
def slow(): time.sleep(60)
`
	for _, c := range []struct {
		function, exception string
		has                 []string
	}{
		{"helper", "Odd", []string{"Traceback (most recent call last):\n  File \"flow.py\", line 4, in helper\n", "flow.Odd: no route"}},
		{"chained", "ValueError", []string{"flow.Odd: no route\n\nThe above exception", `File "flow.py", line 7, in chained`, "ValueError: after all"}},
		{"nosecret", "TaskFailedError", []string{`File "flow.py", line 8, in nosecret`, "does not name the secret 'absent'"}},
		{"needs", "", nil},
		{"waits", "Odd", []string{`File "flow.py", line 10, in waits`}},
		{"deep", "Odd", []string{"flow.Odd: no route"}},
		{"slow", "", []string{`File "flow.py", line 14, in slow`, "TaskTimeoutError: the task ran past its timeout_secs (0.5)"}},
	} {
		t.Run(c.function, func(t *testing.T) {
			t.Parallel()
			req := r.request(t, source, c.function)
			if c.function == "slow" {
				req.Timeout = 500 * time.Millisecond
			}
			result, _ := r.run(t, req)
			require.NotNil(t, result.Failure)
			assert.Equal(t, c.exception, result.Failure.Exception)
			trace := result.Failure.Traceback
			for _, part := range c.has {
				assert.Contains(t, trace, part)
			}
			assert.NotContains(t, trace, "runner/")
			assert.NotContains(t, trace, "millrace/_")
			assert.LessOrEqual(t, len(trace), sandbox.MaxTraceback+10)
		})
	}
}

// TestFieldsOfLogEvent checks that fields passed to ctx.log besides the message
// are an object of their own, bounded, whatever their values are.
func TestFieldsOfLogEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, `
import decimal
class Bad:
    def __str__(self): raise ValueError
def talk(ctx):
    ctx.log("plain")
    ctx.log("read", rows=3, ok=True, none=None, f=float("nan"), big=1 << 70, d=decimal.Decimal("1.5"), of=[1, {"a": (2,)}], bad=Bad(), odd="\ud800")
    ctx.log("much", **{"k%d" % i: "x" * 5000 for i in range(50)})
`, "talk")
	_, log := r.run(t, req)
	require.Len(t, log.list, 3)
	assert.Nil(t, log.list[0].Fields)
	assert.Equal(t, "read", log.list[1].Message)
	assert.JSONEq(t, `{"rows": 3, "ok": true, "none": null, "f": "nan", "big": "1180591620717411303424", "d": "1.5", "of": [1, {"a": [2]}],
		"bad": "<Bad whose str() raised ValueError>", "odd": "?"}`, string(log.list[1].Fields))
	assert.LessOrEqual(t, len(log.list[2].Fields), sandbox.MaxFields)
	assert.Contains(t, string(log.list[2].Fields), "more fields were cut")
}

// TestTaskSignalsItself checks that a task that kills its own process fails
// with the name of the signal, in every mode, and that one with a handler for
// it continues.
func TestTaskSignalsItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = `
import ctypes, os, signal, subprocess
def segv(): os.kill(os.getpid(), signal.SIGSEGV)
def term(): signal.raise_signal(signal.SIGTERM)
def kills(): os.kill(os.getpid(), signal.SIGKILL)
def c(): ctypes.CDLL(None).raise_(signal.SIGUSR1) if hasattr(ctypes.CDLL(None), "raise_") else ctypes.CDLL(None)["raise"](signal.SIGUSR1)
def child(): subprocess.run(["sh", "-c", "kill -HUP $PPID; sleep 5"])
def aborts(): os.abort()
def handled():
    got = []
    signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    return got
`
	for function, want := range map[string]string{
		"segv": "signal 11 (SIGSEGV", "term": "signal 15 (SIGTERM", "kills": "signal 9 (SIGKILL)", "c": "signal 10 (SIGUSR1", "child": "signal 1 (SIGHUP", "aborts": "signal 6 (SIGABRT",
	} {
		_, err := r.Run(t.Context(), r.request(t, source, function), func(sandbox.LogEvent) {})
		assert.ErrorContains(t, err, "the interpreter died: killed by "+want, function)
	}
	result, _ := r.run(t, r.request(t, source, "handled"))
	assert.Equal(t, "[1]", output(t, result))
}

// TestFilesOfArtifact checks that a task opens them by their relative paths and
// cannot change them, that it can write other files in their directory, and
// that the next task does not see those.
func TestFilesOfArtifact(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = `
import os, tempfile, time
def reads(): return open("flow.py").read().splitlines()[1]
def moves(): os.chdir("/"); return 1
def writes():
    open("out.csv", "w").write("x"); os.unlink("flow.py"); open("flow.py", "w").write("mine")
    return sorted(os.listdir("."))
def lists(): return sorted(os.listdir(".")), sorted(n for n in os.listdir(os.environ["TMPDIR"]) if n != ".millrace")
def removes():
    os.chdir("/"); import shutil; shutil.rmtree(os.environ["TMPDIR"] + "/work")
def changes(): open("flow.py", "w").write("x")
def temporary():
    with tempfile.NamedTemporaryFile() as f: return f.write(b"x")
def hides():
    time.sleep(.02)  # longer than a step of a coarse file system clock
    for place in (".", os.environ["TMPDIR"]):
        was = os.stat(place)
        open(place + "/left.csv", "w").write("x"); os.mkdir(place + "/folder")
        os.utime(place, ns=(was.st_atime_ns, was.st_mtime_ns))
def swaps():
    time.sleep(.02)
    was = os.stat("."); os.rename("flow.py", "old.py"); open("flow.py", "w").write("mine"); os.unlink("old.py")
    os.utime(".", ns=(was.st_atime_ns, was.st_mtime_ns))
def chdirs(): os.chdir("/"); os.chmod(os.environ["TMPDIR"] + "/work", 0o500)
`
	for range 2 { // the next task of the interpreter does the same
		result, _ := r.run(t, r.request(t, source, "reads"))
		assert.Equal(t, `"import os, tempfile, time"`, output(t, result))
		result, _ = r.run(t, r.request(t, source, "moves"))
		assert.Equal(t, "1", output(t, result))
	}
	result, _ := r.run(t, r.request(t, source, "temporary"))
	assert.Equal(t, "1", output(t, result))
	for _, function := range []string{"writes", "removes", "hides", "swaps", "chdirs", "temporary"} {
		result, _ = r.run(t, r.request(t, source, function))
		require.Nil(t, result.Failure)
		result, _ = r.run(t, r.request(t, source, "lists"))
		assert.JSONEq(t, `[["flow.py"], ["work"]]`, output(t, result), "what a task makes there is gone after %s, and the artifact is back", function)
	}
	if !namespaces(t, r) {
		return // the task may have the rights of the server
	}
	result, _ = r.run(t, r.request(t, source, "changes"))
	require.NotNil(t, result.Failure)
	assert.Equal(t, "OSError", result.Failure.Exception)
	assert.Contains(t, result.Failure.Message, "what was deployed with the flow is read-only: write to another name")
}
