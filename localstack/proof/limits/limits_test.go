// Package limits checks the sizes that the service guarantees from outside:
// with the real binary, its API, its memory. A normal test run uses a part of
// each; -full uses the limits.
package limits

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	_ "millrace/localstack/embedded/server" // the binary is built from it
	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
)

var full = flag.Bool("full", false, "the limits themselves, not a part of them")

// size returns part, or limit with -full.
func size(part, limit int) int {
	if *full {
		return limit
	}
	return part
}

// mostMemory is the server's memory limit.
const mostMemory = 300 << 20

// binary is millrace, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(proctest.Main(m, map[string]*string{proctest.Local: &binary}))
}

// service is a running server.
type service struct {
	*proc.Server
	*client.Client
	t *testing.T
}

// start runs a server until the test ends.
func start(t *testing.T, flags ...string) *service {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-data-") // its children have another user if the test is root
	require.NoError(t, err)
	log := &bytes.Buffer{}
	s, err := proc.Serve(t.Context(), binary, filepath.Join(dir, "data"), log, flags...)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		assert.NotContains(t, log.String(), "level=ERROR")
		_ = os.RemoveAll(dir)
	})
	return &service{s, s.Client(), t}
}

// peak returns the peak memory of the server; 0 if it is unknown.
func (s *service) peak() int64 {
	most, err := s.Peak()
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(s.t, err)
	return most
}

type object = map[string]any

// transform returns a trivial task.
func transform(name, expression string, after ...string) object {
	return object{"name": name, "type": "transform", "depends_on": after, "config": object{"expression": expression}}
}

// python returns a task of flow.py.
func python(name string, after ...string) object {
	return object{"name": name, "type": "python", "entrypoint": "flow:" + name, "depends_on": after}
}

// register registers a flow without code.
func (s *service) register(name string, tasks ...object) {
	s.t.Helper()
	body := object{"flow_name": name, "flow_version": "1", "flow_spec": object{"tasks": tasks}}
	require.NoError(s.t, s.Do(s.t.Context(), "POST", "/flows", body, nil))
}

// upload deploys a flow with its flow.py.
func (s *service) upload(name, source string, tasks ...object) {
	s.t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("flow.py")
	require.NoError(s.t, err)
	_, err = f.Write([]byte(source))
	require.NoError(s.t, err)
	require.NoError(s.t, w.Close())
	spec, err := json.Marshal(object{"tasks": tasks})
	require.NoError(s.t, err)
	_, err = s.Upload(s.t.Context(), client.Upload{FlowName: name, FlowVersion: "1", DeploymentName: name, Spec: spec, Zip: buf.Bytes()})
	require.NoError(s.t, err)
}

// begin accepts a run.
func (s *service) begin(in client.RunRequest) client.Run {
	s.t.Helper()
	if in.Deployment == "" {
		in.FlowVersion = "1"
	}
	run, err := s.Start(s.t.Context(), in)
	require.NoError(s.t, err)
	return run
}

// summary returns a run from the list of runs, which is faster than reading a
// wide one.
func (s *service) summary(id string) client.Run {
	s.t.Helper()
	var page struct {
		Items []client.Run `json:"items"`
	}
	require.NoError(s.t, s.Do(s.t.Context(), "GET", "/runs?limit=50", nil, &page))
	for _, run := range page.Items {
		if run.RunID == id {
			return run
		}
	}
	require.Fail(s.t, "the run is not listed")
	return client.Run{}
}

// end waits until a run has ended.
func (s *service) end(id string, patience time.Duration) client.Run {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		if run := s.summary(id); run.Ended() {
			return run
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			require.Fail(s.t, "the run is not over", "%+v", s.summary(id))
		}
	}
}
