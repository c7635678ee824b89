// Package e2e tests the whole service from outside: the real binary, its data
// directory, its API.
package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	_ "millrace/localstack/demo" // the binary is built from it
	_ "millrace/localstack/embedded/server"
	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
)

// binary is millrace, built once.
var binary string

func TestMain(m *testing.M) {
	proctest.Play(roles)
	os.Exit(proctest.Main(m, map[string]*string{proctest.Local: &binary}))
}

// dataDir returns a data directory that the server's children can reach, which
// have another user if the test is root.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-data-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// start runs a server until the test ends.
func start(t *testing.T, dir string, flags ...string) *proc.Server {
	t.Helper()
	return startOf(t, binary, dir, flags...)
}

// startOf is start for a program that executes the server.
func startOf(t *testing.T, program, dir string, flags ...string) *proc.Server {
	t.Helper()
	s, err := proc.Serve(t.Context(), program, dir, nil, flags...)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the server wrote:\n%s", s.Output())
		}
	})
	return s
}

// task is one task of a flow_spec.
type task struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Entrypoint string         `json:"entrypoint,omitempty"`
	DependsOn  []string       `json:"depends_on,omitempty"`
	MapOver    string         `json:"map_over,omitempty"`
	Config     map[string]any `json:"config,omitempty"`
}

// transform returns a trivial task.
func transform(name, expression string, after ...string) task {
	return task{Name: name, Type: "transform", DependsOn: after, Config: map[string]any{"expression": expression}}
}

// deploy uploads a flow with the given source of flow.py and deploys it under
// the flow's name.
func deploy(t *testing.T, api *client.Client, flow, source string, tasks []task) {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("flow.py")
	require.NoError(t, err)
	_, err = f.Write([]byte(source))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	spec, err := json.Marshal(map[string]any{"tasks": tasks})
	require.NoError(t, err)
	out, err := api.Upload(t.Context(), client.Upload{FlowName: flow, FlowVersion: "1", DeploymentName: flow, Spec: spec, Zip: buf.Bytes()})
	require.NoError(t, err)
	require.Equal(t, flow, out.DeploymentName)
}

// register registers a flow without code.
func register(t *testing.T, api *client.Client, flow string, tasks []task) {
	t.Helper()
	require.NoError(t, api.Do(t.Context(), "POST", "/flows", map[string]any{
		"flow_name": flow, "flow_version": "1", "flow_spec": map[string]any{"tasks": tasks},
	}, nil))
}

// finish waits until a run has ended and requires that it succeeded.
func finish(t *testing.T, api *client.Client, id string) client.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	run, err := api.Watch(ctx, id, 20*time.Millisecond, nil)
	require.NoError(t, err, "the run is %s: %s", run.Status, states(run))
	require.Equal(t, "SUCCEEDED", run.Status, "%s: %s", run.ErrorMessage, states(run))
	return run
}

// states counts the records of a run by status.
func states(run client.Run) string {
	counts := map[string]int{}
	for _, t := range run.TaskRuns {
		counts[t.Status]++
	}
	return strings.TrimPrefix(fmt.Sprint(counts), "map")
}
