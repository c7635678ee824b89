//go:build unix

package interpreters_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/proc/proctest"
	"millrace/shared/run/sandbox"
)

// hold is a task that connects to ADDR from itself and from a grandchild in
// another session, and then waits: each connection lives as long as its
// process.
const hold = `
import os, socket, subprocess, sys, time
def hold(host, port, detach):
    code = "import socket,time; s=socket.create_connection((%r,%d)); s.sendall(b'grandchild\\n'); time.sleep(600)" % (host, port)
    subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=detach)
    s = socket.create_connection((host, port)); s.sendall(b"task\n")
    time.sleep(600)
`

// accept returns the two connections of hold, the task's first.
func accept(t *testing.T, l net.Listener) []net.Conn {
	t.Helper()
	conns := map[string]net.Conn{}
	for range 2 {
		conn, err := l.Accept()
		require.NoError(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		conns[line] = conn
	}
	require.Contains(t, conns, "task\n")
	require.Contains(t, conns, "grandchild\n")
	return []net.Conn{conns["task\n"], conns["grandchild\n"]}
}

// gone waits until the other ends have closed, which happens when their
// processes die.
func gone(t *testing.T, conns []net.Conn) {
	t.Helper()
	for _, conn := range conns {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := conn.Read(make([]byte, 1))
		assert.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it still lives")
		assert.Error(t, err)
	}
}

func listen(t *testing.T) (net.Listener, map[string]json.RawMessage) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	return l, map[string]json.RawMessage{"host": raw(`"127.0.0.1"`), "port": raw(fmt.Sprint(port)), "detach": raw("false")}
}

func namespaces(t *testing.T, r *rig) bool {
	t.Helper()
	mode, python, err := r.Mode(t.Context())
	require.NoError(t, err)
	t.Log(mode, python)
	return strings.Contains(mode, "namespaces")
}

func TestCancelKillsTaskAndDescendants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, params := listen(t)
	if namespaces(t, r) {
		params["detach"] = raw("true") // setsid does not escape
	}
	req := r.request(t, hold+"\ndef next(): return 'fine'\n", "hold")
	req.Params = params
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cancelled by the fence")
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, req, func(sandbox.LogEvent) {})
		done <- err
	}()
	conns := accept(t, l)
	cancel(cause)
	require.ErrorIs(t, <-done, cause)
	gone(t, conns)
	req.Entrypoint = "flow:next"
	result, _ := r.run(t, req)
	assert.Equal(t, `"fine"`, output(t, result))
}

func TestTimeoutKillsDescendants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, params := listen(t)
	req := r.request(t, hold, "hold")
	req.Params = params
	req.Timeout = 3 * time.Second
	done := make(chan sandbox.Result, 1)
	go func() {
		result, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
		assert.NoError(t, err)
		done <- result
	}()
	conns := accept(t, l)
	result := <-done
	require.NotNil(t, result.Failure)
	assert.Equal(t, sandbox.TaskTimeoutError, result.Failure.Type)
	gone(t, conns)
}

func TestCrashIsInfrastructureError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const source = `
import ctypes, os, sys
def exits(): print("last words", flush=True); os._exit(7)
def faults(): ctypes.string_at(0)
def babbles(): os.write(4, b"\x00\x00\x00\x05Zabcd")
def floods(): os.write(4, b"\xff\xff\xff\xffR")
def lies(): os.write(4, b"\x00\x00\x00\x03R{}")
def closes(): os.close(4)
def next(): return os.getpid()
`
	for function, want := range map[string]string{
		"exits": "exit status 7", "faults": "signal 11", "babbles": "protocol", "floods": "protocol", "lies": "protocol", "closes": "",
	} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			var log events
			req := r.request(t, source, function)
			req.Tier = function // a separate interpreter
			_, err := r.Run(t.Context(), req, log.add)
			require.Error(t, err)
			assert.ErrorContains(t, err, want)
			if function == "exits" {
				assert.Contains(t, log.text(), "last words")
			}
			req.Entrypoint = "flow:next"
			result, _ := r.run(t, req)
			assert.Nil(t, result.Failure)
		})
	}
}

// A kill from outside, such as the kernel's when memory runs out, is reported
// as such.
func TestSIGKILLIsInfrastructureError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, "import time\ndef waits(marker): print(marker); time.sleep(600)\ndef next(): return 1\n", "waits")
	req.Params = map[string]json.RawMessage{"marker": raw(`"ready"`)}
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) { close(ready) })
		done <- err
	}()
	<-ready
	for _, pid := range children(t, filepath.Join(r.dir, "data")) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.ErrorContains(t, <-done, "killed by signal 9")
	req.Entrypoint = "flow:next"
	result, _ := r.run(t, req)
	assert.Equal(t, "1", output(t, result))
}

// An interpreter that dies between two tasks fails neither of them.
func TestDeathWhileIdleFailsNoTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, "def f(): return 1\n", "f")
	r.run(t, req)
	for range 5 {
		for _, pid := range children(t, filepath.Join(r.dir, "data")) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			require.Eventually(t, func() bool { // reaped, not only dead
				_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
				return errors.Is(err, os.ErrNotExist)
			}, time.Minute, time.Millisecond)
		}
		result, _ := r.run(t, req)
		assert.Equal(t, "1", output(t, result))
	}
}

// children returns the processes whose command line contains a directory.
func children(t *testing.T, dir string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		var pid int
		if strings.Contains(string(line), dir) && strings.Contains(string(line), "runner.local") {
			_, err := fmt.Sscanf(path, "/proc/%d/", &pid)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { // the child of a namespace's first process
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		var state string
		var parent int
		_, _ = fmt.Sscan(rest, &state, &parent)
		return slices.Contains(pids, parent)
	})
}

func TestEnvironmentIsClean(t *testing.T) {
	require.NoError(t, os.Setenv("MILLRACE_TEST_SECRET", "verysecret"))
	t.Cleanup(func() { os.Unsetenv("MILLRACE_TEST_SECRET") })
	r := newRig(t)
	secret := filepath.Join(r.dir, "data", "credentials.json")
	req := r.request(t, `
import os, sys
def look(secret):
    def read(path):
        try: return open(path, "rb").read().decode("latin-1")
        except OSError as e: return type(e).__name__
    fds = []
    for n in range(5, 256):
        try: os.fstat(n); fds.append(n)
        except OSError: pass
    processes = [p for p in os.listdir("/proc") if p.isdigit()]
    open(os.environ["TMPDIR"] + "/mine.txt", "w").write("x")
    try: open(os.path.join(os.path.dirname(__file__), "flow.py"), "a"); writable = True
    except OSError: writable = False
    return {"env": dict(os.environ), "fds": fds, "uid": os.getuid(), "groups": os.getgroups(), "parent": read("/proc/%d/environ" % os.getppid()),
            "secret": read(secret), "processes": len(processes), "writable": writable, "packages": [p for p in sys.path if "site-packages" in p],
            "caps": [l for l in open("/proc/self/status").read().splitlines() if l.startswith(("CapEff", "CapBnd", "NoNewPrivs"))]}
def ls(): return sorted(n for n in os.listdir(os.environ["TMPDIR"]) if n not in (".millrace", "work"))
`, "look")
	isolated := namespaces(t, r)
	require.NoError(t, os.WriteFile(secret, []byte("verysecret"), 0o600))
	req.Params = map[string]json.RawMessage{"secret": raw(`"` + secret + `"`)}
	result, _ := r.run(t, req)
	text := output(t, result)
	assert.NotContains(t, text, "verysecret")
	var seen struct {
		Env       map[string]string
		FDs       []int
		UID       int
		Groups    []int
		Processes int
		Writable  bool
		Packages  []string
		Caps      []string
	}
	require.NoError(t, json.Unmarshal(result.Output, &seen))
	assert.Empty(t, seen.FDs, "no inherited descriptor")
	assert.Empty(t, seen.Packages)
	assert.Contains(t, seen.Caps, "NoNewPrivs:\t1")
	assert.Contains(t, seen.Caps, "CapEff:\t0000000000000000")
	for name := range seen.Env {
		if !strings.HasSuffix(name, "_THREADS") {
			assert.Contains(t, []string{"PATH", "LANG", "TZ", "HOME", "TMPDIR", "MILLRACE_SANDBOX", "LC_CTYPE"}, name)
		}
	}
	if os.Geteuid() == 0 {
		assert.GreaterOrEqual(t, seen.UID, interpreters.DefaultUID)
		assert.Empty(t, seen.Groups)
		assert.False(t, seen.Writable, "the artifact is not the task's to change")
	}
	if isolated {
		assert.Equal(t, 2, seen.Processes, "it sees itself and the first process of its namespace")
		assert.False(t, seen.Writable, "the artifact is not the task's to change")
	}
	req.Entrypoint = "flow:ls"
	result, _ = r.run(t, req)
	assert.Equal(t, "[]", output(t, result), "files of one task do not reach the next")
}

func TestStateDoesNotLeak(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, `
import logging, os, signal, sys, threading
count = 0
def dirty():
    global count; count += 1
    os.chdir("/"); os.environ["LEFT"] = "over"; sys.argv.append("x"); os.umask(0o777); sys.stdout = None
    signal.signal(signal.SIGTERM, signal.SIG_IGN); logging.root.handlers.clear(); logging.root.setLevel(50); sys.path.insert(0, "/left")
def threads():
    threading.Thread(target=threading.Event().wait).start()
def look():
    logging.info("heard"); print("printed")
    return [count, os.getcwd() == os.environ["TMPDIR"] + "/work", "LEFT" in os.environ, len(sys.argv), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
            "/left" in sys.path]
`, "dirty")
	look := func(count string) {
		req.Entrypoint = "flow:look"
		result, log := r.run(t, req)
		assert.JSONEq(t, `[`+count+`, true, false, 1, true, false]`, output(t, result))
		assert.Equal(t, "info root heard\ninfo stdout printed\n", log.text())
	}
	r.run(t, req)
	look("1") // module globals live as long as the interpreter
	req.Entrypoint = "flow:threads"
	r.run(t, req)
	look("0") // a task that leaves a thread behind ends its interpreter
}

func TestWorkspacesNeverShareInterpreter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request(t, "seen = []\ndef f(name):\n    seen.append(name)\n    return seen\n", "f")
	for i, want := range []string{`["a"]`, `["b"]`, `["a", "a"]`, `["b", "b"]`} {
		req.Workspace = string("ab"[i%2])
		req.Params = map[string]json.RawMessage{"name": raw(`"` + req.Workspace + `"`)}
		result, _ := r.run(t, req)
		assert.JSONEq(t, want, output(t, result))
	}
	assert.EqualValues(t, 2, r.gets.Load(), "one download for each workspace")
}

func TestLeastRecentlyUsedInterpreterIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.Slots = 2 })
	req := r.request(t, "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n", "f")
	for _, step := range []struct{ workspace, want string }{
		{"a", "1"}, {"b", "1"}, {"a", "2"}, {"c", "1"}, {"a", "3"}, {"b", "1"}, {"c", "1"},
	} {
		req.Workspace = step.workspace
		result, _ := r.run(t, req)
		assert.Equal(t, step.want, output(t, result), step)
		assert.LessOrEqual(t, len(children(t, filepath.Join(r.dir, "data"))), 2)
	}
}

// Sixteen tasks meet at a barrier that opens when all of them have arrived.
func TestSixteenInParallel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, params := listen(t)
	req := r.request(t, `
import socket
def meet(host, port):
    s = socket.create_connection((host, port)); return s.recv(2).decode()
`, "meet")
	req.Params = params
	var tasks sync.WaitGroup
	for range 16 {
		tasks.Go(func() {
			result, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
			if assert.NoError(t, err) {
				assert.Equal(t, `"go"`, string(result.Output))
			}
		})
	}
	var conns []net.Conn
	for range 16 {
		conn, err := l.Accept()
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_, err := conn.Write([]byte("go"))
		require.NoError(t, err)
	}
	tasks.Wait()
	assert.EqualValues(t, 1, r.gets.Load(), "one download")
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l, params := listen(t)
	req := r.request(t, hold, "hold")
	req.Params = params
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
		done <- err
	}()
	conns := accept(t, l)
	require.NoError(t, r.Close())
	require.ErrorIs(t, <-done, interpreters.ErrClosed)
	gone(t, conns)
	_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
	require.ErrorIs(t, err, interpreters.ErrClosed)
	left, err := os.ReadDir(filepath.Join(r.dir, "data", "python", "scratch"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// serving is a server in a separate process that runs one task.
type serving struct {
	Dir, URL, Hash, Entrypoint string
	Params                     map[string]json.RawMessage
}

func serve(argument string) error {
	var s serving
	if err := json.Unmarshal([]byte(argument), &s); err != nil {
		return err
	}
	pool, err := interpreters.New(interpreters.Config{Dir: s.Dir})
	if err != nil {
		return err
	}
	if err := interpreters.Undumpable(); err != nil {
		return err
	}
	_, err = pool.Run(context.Background(), sandbox.Request{
		Workspace: "acme", Tier: "nano", Artifact: sandbox.Artifact{Hash: s.Hash, URL: at(s.URL)}, Entrypoint: s.Entrypoint, Params: s.Params,
	}, func(sandbox.LogEvent) {})
	return err
}

func TestChildrenDieWithServer(t *testing.T) {
	t.Parallel()
	store := &rig{blobs: map[string][]byte{}}
	server := httptest.NewServer(store)
	defer server.Close()
	store.url = server.URL
	l, params := listen(t)
	req := store.request(t, hold, "hold")
	argument, err := json.Marshal(serving{
		filepath.Join(t.TempDir(), "python"), server.URL + "/" + req.Artifact.Hash, req.Artifact.Hash, req.Entrypoint, params,
	})
	require.NoError(t, err)
	child := proctest.Start(t, "serve", string(argument))
	conns := accept(t, l)
	child.Kill()
	if namespaces(t, newRig(t)) {
		gone(t, conns)
	} else {
		gone(t, conns[:1]) // what a task started itself outlives a killed server
	}
}
