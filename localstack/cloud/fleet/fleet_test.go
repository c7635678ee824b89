package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/fleet"
	"millrace/localstack/proc/proctest"
	"millrace/localstack/runtimeapi"
)

// TestMain also runs the functions' program.
func TestMain(m *testing.M) {
	switch os.Getenv("_HANDLER") {
	case "":
		os.Exit(m.Run())
	case "broken":
		fmt.Println("it cannot start")
		os.Exit(3)
	default:
		lambda.Start(handle)
	}
}

type request struct {
	Do, File string
}

type answer struct {
	PID    int
	Env    []string
	Tenant string
	Files  []string
}

// handle does what the request says.
func handle(ctx context.Context, in request) (answer, error) {
	switch in.Do {
	case "fail":
		return answer{}, errors.New("no luck")
	case "die":
		fmt.Println("last words")
		os.Exit(4)
	case "wait": // until the file exists
		if err := os.WriteFile(in.File+".began", nil, 0o600); err != nil {
			return answer{}, err
		}
		for {
			if _, err := os.Stat(in.File); err == nil {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				select {} // ignores its deadline
			}
		}
	case "beget": // starts a child process
		child := exec.Command("/bin/sleep", "600")
		if err := child.Start(); err != nil {
			return answer{}, err
		}
		return answer{PID: child.Process.Pid}, nil
	}
	files, err := filepath.Glob("*")
	return answer{PID: os.Getpid(), Env: os.Environ(), Files: files}, err
}

func open(t *testing.T, functions ...fleet.Function) *fleet.Fleet {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for i := range functions {
		f := &functions[i]
		f.Command = []string{self}
		if f.Env == nil {
			f.Env = map[string]string{}
		}
		if f.Env["_HANDLER"] == "" {
			f.Env["_HANDLER"] = "handle"
		}
	}
	f := fleet.New(filepath.Join(t.TempDir(), "functions"), nil, functions...)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func invoke(t *testing.T, f *fleet.Fleet, name, tenant string, in request) (answer, error) {
	t.Helper()
	payload, err := json.Marshal(in)
	require.NoError(t, err)
	got, err := f.Invoke(t.Context(), name, tenant, payload)
	if err != nil {
		return answer{}, err
	}
	data, err := got.Bytes()
	require.NoError(t, err)
	var out answer
	require.NoError(t, json.Unmarshal(data, &out))
	return out, nil
}

// idle waits until n processes wait for an event.
func idle(t *testing.T, f *fleet.Fleet, name, tenant string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.Idle(name, tenant) == n }, 20*time.Second, 5*time.Millisecond, "%s %s", name, tenant)
}

func TestProcessHandlesOneEventAtATime(t *testing.T) {
	t.Parallel()
	f := open(t, fleet.Function{Name: "f", Env: map[string]string{"OWN": "1"}, Code: func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "code"), nil, 0o600)
	}})
	first, err := invoke(t, f, "f", "", request{})
	require.NoError(t, err)
	assert.Contains(t, first.Env, "OWN=1")
	assert.Contains(t, first.Env, "AWS_LAMBDA_FUNCTION_NAME=f")
	for _, v := range first.Env {
		assert.False(t, strings.HasPrefix(v, "HOME="), "nothing of this process's environment")
	}
	assert.Equal(t, []string{"code"}, first.Files)
	idle(t, f, "f", "", 1)
	again, err := invoke(t, f, "f", "", request{})
	require.NoError(t, err)
	assert.Equal(t, first.PID, again.PID, "it stays warm")
	idle(t, f, "f", "", 1)

	file := filepath.Join(t.TempDir(), "go-on")
	waited := make(chan answer, 1)
	go func() {
		got, err := invoke(t, f, "f", "", request{Do: "wait", File: file})
		assert.NoError(t, err)
		waited <- got
	}()
	idle(t, f, "f", "", 0)
	other, err := invoke(t, f, "f", "", request{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.NotEqual(t, (<-waited).PID, other.PID)
	idle(t, f, "f", "", 2)
}

func TestTenantsNeverShareProcess(t *testing.T) {
	t.Parallel()
	f := open(t, fleet.Function{Name: "f", Tenants: true})
	_, err := invoke(t, f, "f", "", request{})
	require.ErrorIs(t, err, fleet.ErrNoTenant)
	pids := map[int]string{}
	for _, tenant := range []string{"a", "b", "a", "b"} {
		got, err := invoke(t, f, "f", tenant, request{})
		require.NoError(t, err)
		if seen, met := pids[got.PID]; met {
			assert.Equal(t, seen, tenant)
		}
		pids[got.PID] = tenant
		idle(t, f, "f", tenant, 1)
	}
	assert.Len(t, pids, 2)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	f := open(t,
		fleet.Function{Name: "f"},
		fleet.Function{Name: "short", Timeout: 300 * time.Millisecond},
		fleet.Function{Name: "broken", Env: map[string]string{"_HANDLER": "broken"}},
	)
	for _, c := range []struct{ function, do, kind, message string }{
		{"f", "fail", "errorString", "no luck"},
		{"f", "die", "Runtime.ExitError", `exit status 4; it wrote:\n(.*\n)?last words`},
		{"short", "wait", "Sandbox.Timedout", "Task timed out after 0.30 seconds"},
		{"broken", "", "Runtime.ExitError", "it cannot start"},
	} {
		_, err := invoke(t, f, c.function, "", request{Do: c.do, File: filepath.Join(t.TempDir(), "never")})
		var fault *runtimeapi.Fault
		require.ErrorAs(t, err, &fault, c.function)
		assert.Equal(t, c.kind, fault.Type)
		assert.Regexp(t, c.message, fault.Message)
	}
	_, err := invoke(t, f, "f", "", request{})
	require.NoError(t, err, "another process takes over")
	_, err = invoke(t, f, "short", "", request{})
	require.NoError(t, err)
	_, err = invoke(t, f, "nobody", "", request{})
	require.ErrorIs(t, err, fleet.ErrUnknown)
}

func TestEventContinuesAfterCallerLeaves(t *testing.T) {
	t.Parallel()
	f := open(t, fleet.Function{Name: "f"})
	file := filepath.Join(t.TempDir(), "go-on")
	ctx, cancel := context.WithCancel(t.Context())
	payload, err := json.Marshal(request{Do: "wait", File: file})
	require.NoError(t, err)
	left := make(chan error, 1)
	go func() {
		_, err := f.Invoke(ctx, "f", "", payload)
		left <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(file + ".began")
		return err == nil
	}, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	assert.Zero(t, f.Idle("f", ""))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	idle(t, f, "f", "", 1)
}

func TestCloseLeavesNoProcess(t *testing.T) {
	t.Parallel()
	f := open(t, fleet.Function{Name: "f"})
	child, err := invoke(t, f, "f", "", request{Do: "beget"})
	require.NoError(t, err)
	busy := make(chan error, 1)
	go func() {
		_, err := invoke(t, f, "f", "", request{Do: "wait", File: filepath.Join(t.TempDir(), "never")})
		busy <- err
	}()
	idle(t, f, "f", "", 0)
	require.NoError(t, f.Close())
	require.ErrorIs(t, <-busy, fleet.ErrClosed)
	proctest.RequireGone(t, child.PID)
	_, err = invoke(t, f, "f", "", request{})
	require.ErrorIs(t, err, fleet.ErrClosed)
}

func TestInvokeAPI(t *testing.T) {
	t.Parallel()
	f := open(t, fleet.Function{Name: "f"}, fleet.Function{Name: "sandbox", Tenants: true})
	mux := http.NewServeMux()
	mux.Handle(fleet.InvokePattern, f)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "go-on")
	for _, c := range []struct {
		name, kind, body string
		status           int
		header, want     string
	}{
		{"f", "", `{}`, 200, "", `"PID":`},
		{"arn:aws:lambda:eu-west-1:1:function:f", "", `{}`, 200, "", `"PID":`},
		{"f:live", "", `{"Do": "fail"}`, 200, "Unhandled", "no luck"},
		{"nobody", "", `{}`, 404, "", "no such function"},
		{"nobody", "Event", `{}`, 404, "", "no such function"},
		{"sandbox", "", `{}`, 400, "", "tenant ID"},
		{"f", "Event", `{"Do": "wait", "File": "` + file + `"}`, 202, "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/2015-03-31/functions/"+c.name+"/invocations", strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header.Set("X-Amz-Invocation-Type", c.kind)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		assert.Equal(t, c.status, res.StatusCode, "%s: %s", c.name, data)
		assert.Equal(t, c.header, res.Header.Get("X-Amz-Function-Error"), c.name)
		assert.Contains(t, string(data), c.want)
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
}
