package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// user runs commands of the binary in a folder, without a terminal.
type user struct {
	t   *testing.T
	dir string
	env []string
}

type answer struct {
	code     int
	out, err string
}

func (u *user) run(stdin string, args ...string) answer {
	u.t.Helper()
	cmd := u.command(args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	err := cmd.Run()
	if err != nil {
		require.IsType(u.t, &exec.ExitError{}, err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), binary, args...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), append([]string{"MILLRACE_URL=", "MILLRACE_API_KEY=", "XDG_CONFIG_HOME=" + u.dir}, u.env...)...)
	return cmd
}

// must runs a command that is done.
func (u *user) must(args ...string) string {
	u.t.Helper()
	a := u.run("", args...)
	require.Zero(u.t, a.code, "%v: %s%s", args, a.out, a.err)
	return a.out
}

// begun is a command that goes on. It has told which run it is about.
type begun struct {
	cmd      *exec.Cmd
	run      string // its slug
	out, err *bytes.Buffer
	read     func()
}

// begin starts a command that starts a run, and waits until it has.
func (u *user) begin(args ...string) begun {
	u.t.Helper()
	b := begun{cmd: u.command(args...), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	b.cmd.Stderr = b.err
	pipe, err := b.cmd.StdoutPipe()
	require.NoError(u.t, err)
	require.NoError(u.t, b.cmd.Start())
	out := bufio.NewReader(pipe)
	first, err := out.ReadString('\n')
	require.NoError(u.t, err)
	words := strings.Fields(first)
	require.Len(u.t, words, 3, first)
	b.run = words[2]
	b.read = func() { _, _ = out.WriteTo(b.out) } // what it printed is compared
	return b
}

// end waits for the command's end and returns its exit code.
func (b begun) end() int {
	b.read()
	_ = b.cmd.Wait() // the code tells
	return b.cmd.ProcessState.ExitCode()
}

// TestFromNothingToAGreenRun does what a new user does, and goes on from there.
func TestFromNothingToAGreenRun(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	u.must("init")
	start(t, filepath.Join(project, ".millrace"))

	assert.Regexp(t, `^daily c-[0-9a-f]{12} \(3 files, \d+ B\): the server would take it; deployment daily: 0 -> 1\n$`, u.must("deploy", "--check"))
	assert.Equal(t, "FLOW  LATEST  VERSIONS  UPDATED\n", u.must("flows"), "nothing was stored")
	first := u.run("", "deploy")
	require.Zero(t, first.code, first.err)
	assert.Regexp(t, `^daily c-[0-9a-f]{12} \(3 files, \d+ B\); deployment daily: 0 -> 1\n$`, first.out)
	assert.Contains(t, first.err, "credentials.json)", "it tells which server it speaks to")
	assert.Contains(t, u.must("deploy"), "deployment daily: 1, as it was", "again it changes nothing")
	assert.Contains(t, u.must("deployments"), "medium")

	ran := u.must("run", "daily", "-p", "day=2026-02-01", "-w")
	assert.Contains(t, ran, "SUCCEEDED in ")
	slug := regexp.MustCompile(`[a-z]+-[a-z]+-[a-z]+-\d+`).FindString(ran)
	require.NotEmpty(t, slug)
	for _, name := range []string{slug, slug[strings.LastIndexByte(slug, '-')+1:], "last"} {
		assert.Equal(t, "16\n", u.must("output", name, "load"), name)
	}
	assert.Equal(t, "[6,10]\n", u.must("output", "last", "double"))
	assert.Equal(t, "10\n", u.must("output", "last", "double[1]"))
	assert.Contains(t, u.must("runs", "get", "last"), "double[1]")
	assert.Contains(t, u.must("logs", "last", "-f", "--task", "extract"), "extract: reading day=2026-02-01")
	var events int
	for line := range strings.Lines(u.must("logs", "last", "--json")) {
		require.True(t, json.Valid([]byte(line)), line)
		events++
	}
	assert.Greater(t, events, 5)
	assert.Contains(t, u.must("retry", "last", "-w"), "SUCCEEDED in ")
	assert.Equal(t, 1, u.run("", "retry", "last", "--failed").code, "nothing of it failed")
	assert.Contains(t, u.must("compare", slug, "last"), "SUCCEEDED -> SUCCEEDED")
	assert.Contains(t, u.must("runs", "--status", "succeeded", "--since", "1d", "--limit", "1"), "daily")
	assert.Regexp(t, `(?s)ok     health .*ok     expiry +svc_\S+ .* does not expire\nok     keys +of lists and secret values were made on `, u.must("doctor"))
	assert.Contains(t, u.must("flows"), "daily")
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	require.NoError(t, json.Unmarshal([]byte(u.must("api", "GET", "/runs", "-f", "limit=1")), &page))
	assert.Len(t, page.Items, 1)

	require.NoError(t, os.WriteFile(filepath.Join(project, "flow.py"), []byte(`
print("on stdout at import")
from millrace import flow, task

@task
def text(): return "as it is\n"

@flow(name="daily")
def daily(): text()
`), 0o600))
	assert.Contains(t, u.must("deploy"), "deployment daily: 1 -> 2")
	assert.Zero(t, u.run("", "run", "daily", "-w").code)
	assert.Equal(t, "as it is\n", u.must("output", "last", "text"))
	assert.Contains(t, u.must("rollback", "daily"), "deployment version 3")

	require.NoError(t, os.WriteFile(filepath.Join(project, "flow.py"), []byte("import millrace\nboom = 1 / 0\n"), 0o600))
	wrong := u.run("", "deploy")
	assert.Equal(t, 1, wrong.code)
	assert.Contains(t, wrong.err, "flow.py:2: ZeroDivisionError")
}

func TestSecretsByCommandLine(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir)
	u := &user{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + s.Credentials.BaseURL, "MILLRACE_API_KEY=" + s.Credentials.APIKey}}
	for version, value := range []string{"hunter2hunter2\n", "second secret"} {
		a := u.run(value, "secrets", "set", "DB_PASSWORD")
		require.Zero(t, a.code, a.err)
		assert.Equal(t, "DB_PASSWORD has version "+string(rune('1'+version))+"\n", a.out)
		assert.NotContains(t, a.err, strings.TrimSpace(value))
	}
	var value struct{ Value string }
	require.NoError(t, json.Unmarshal([]byte(u.must("api", "GET", "/secrets/DB_PASSWORD/value")), &value))
	assert.Equal(t, "second secret", value.Value)
	assert.Contains(t, u.must("secrets", "list"), "DB_PASSWORD")
	assert.Equal(t, 2, u.run("\n", "secrets", "set", "EMPTY").code)
	u.must("secrets", "rm", "DB_PASSWORD")
	assert.Equal(t, 6, u.run("", "secrets", "rm", "DB_PASSWORD").code)
}

func TestExitCodesByOutcome(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + s.Credentials.BaseURL, "MILLRACE_API_KEY=" + s.Credentials.APIKey}}
	register(t, s.Client(), "fine", []task{transform("one", "1")})
	register(t, s.Client(), "broken", []task{transform("one", "[1][7]")})
	register(t, s.Client(), "long", []task{{Name: "wait", Type: "wait", Config: map[string]any{"seconds": 3600}}})
	require.NoError(t, s.Client().Do(t.Context(), "POST", "/flows", map[string]any{
		"flow_name": "late", "flow_version": "1", "flow_spec": map[string]any{
			"timeout_secs": 1, "tasks": []task{{Name: "wait", Type: "wait", Config: map[string]any{"seconds": 3600}}},
		},
	}, nil))
	assert.Equal(t, 0, u.run("", "run", "fine@1", "-w").code)
	failed := u.run("", "run", "broken@latest", "-w")
	assert.Equal(t, 1, failed.code)
	assert.Contains(t, failed.out, "millrace retry ")
	assert.Equal(t, 3, u.run("", "run", "late@1", "-w").code)

	began := u.run("", "run", "long@1", "--json")
	var run struct {
		RunID string `json:"run_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(began.out), &run))
	watched := make(chan answer, 1)
	go func() { watched <- u.run("", "logs", run.RunID, "-f") }()
	u.must("cancel", run.RunID)
	assert.Zero(t, (<-watched).code, "the log ends with the run")
	assert.Contains(t, u.must("runs", "get", "last"), "CANCELLED")

	// A run that is cancelled while it is watched, and one whose watching is interrupted.
	watch := u.begin("run", "long@1", "-w")
	u.must("cancel", watch.run)
	assert.Equal(t, 4, watch.end())
	assert.Contains(t, watch.out.String(), "CANCELLED in ")
	watch = u.begin("run", "long@1", "-w")
	require.NoError(t, watch.cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, 130, watch.end())
	assert.Contains(t, watch.err.String(), "the run goes on: millrace logs -f ")
	assert.Contains(t, u.must("runs", "--flow", "long", "--status", "running"), watch.run)
	u.must("cancel", watch.run)

	for want, args := range map[int][][]string{
		2: {{"runs", "--nope"}, {"nope"}, {"runs", "--since", "x"}, {"run"}, {"output", "last", "a b"}, {"runs", "--limit", "0"}, {"logs", "last", "--level", "loud"}},
		5: {{"runs", "--api-key", "svc_wrong"}},
		6: {{"runs", "get", "no-such-run-1"}, {"run", "nobody"}, {"output", "last", "nobody"}, {"context", "use", "nobody"}, {"logs", "99999999"}},
		1: {{"runs", "--url", "http://127.0.0.1:1"}, {"api", "POST", "/flows", "-f", "flow_name=x"}},
	} {
		for _, a := range args {
			got := u.run("", a...)
			assert.Equal(t, want, got.code, "%v: %s%s", a, got.out, got.err)
			assert.NotEmpty(t, got.err, "%v", a)
		}
	}
	assert.Contains(t, u.run("", "runs", "--url", "http://127.0.0.1:1").err, "millrace serve")
}

func TestContextsAndKeysByCommandLine(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir()}
	added := u.run(s.Credentials.APIKey+"\n", "context", "add", "here", "--url", s.Credentials.BaseURL)
	require.Zero(t, added.code, added.err)
	assert.Equal(t, 1, u.run("", "context", "add", "here", "--url", "http://127.0.0.1:1").code)
	assert.Equal(t, 2, u.run("", "context", "add", "bad", "--url", "ftp://x").code)
	assert.Contains(t, u.must("context", "list"), "*  here     "+s.Credentials.BaseURL)

	created := u.run("", "keys", "create", "ci", "--scope", "flows.read", "--days", "3")
	require.Zero(t, created.code, created.err)
	key := strings.TrimSpace(created.out)
	assert.Regexp(t, `^svc_\w+$`, key, "stdout has the key alone")
	assert.NotContains(t, created.err, key)
	id := strings.Split(strings.Split(created.err, "\n")[1], ",")[0]
	assert.Contains(t, u.must("keys", "list"), id)
	assert.Zero(t, u.run("", "flows", "--api-key", key).code)
	assert.Equal(t, 5, u.run("", "runs", "--api-key", key).code, "it may not read runs")
	assert.Contains(t, u.must("keys", "delete", id), "is deleted")
	assert.Equal(t, 6, u.run("", "keys", "delete", id).code)
	assert.Equal(t, 5, u.run("", "flows", "--api-key", key).code)
	assert.Equal(t, 2, u.run("", "keys", "create", "x", "--all", "--scope", "flows.read").code)

	u.must("context", "rm", "here")
	assert.Equal(t, 6, u.run("", "context", "rm", "here").code)
	assert.Equal(t, 1, u.run("", "flows").code, "no server is named")
}

func TestLocalRunByCommandLine(t *testing.T) {
	t.Parallel()
	u := &user{t: t, dir: t.TempDir()}
	u.must("init")
	for _, name := range []string{"daily", "flow.py", "flow.py:daily"} {
		ran := u.run("", "run", "--local", name, "-p", "day=2026")
		require.Zero(t, ran.code, ran.err)
		var made struct {
			Outputs map[string]any `json:"outputs"`
		}
		require.NoError(t, json.Unmarshal([]byte(ran.out), &made), ran.out)
		assert.InDelta(t, 16, made.Outputs["load"], 0, name)
	}
	assert.Equal(t, 6, u.run("", "run", "--local", "weekly").code)
	assert.Equal(t, 1, u.run("", "run", "--local", "daily", "-p", "month=1").code)
	assert.Equal(t, 2, u.run("", "run", "--local", "daily", "--tier", "nano").code)
	assert.Equal(t, 1, u.run(`{"day": 5}`, "run", "--local", "daily", "--params", "-").code, "it is text")
}
