package limits

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// stubborn are tasks that resist ending: one sleeps, one ignores every signal
// it can, one catches every exception, one delegates to a child in another
// session.
const stubborn = `
import os, signal, subprocess, sys, time

def sleeps(ctx):
    print("begun")
    time.sleep(600)

def ignores(ctx):
    for s in range(1, signal.NSIG):
        try:
            signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    print("begun")
    while True:
        time.sleep(1)

def catches(ctx):
    print("begun")
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass

def spins(ctx):
    print("begun")
    while True:
        pass

def forks(ctx):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(%d)"], start_new_session=True)
    print("begun")
    child.wait()
`

// TestCancelStopsTasks cancels runs with tasks that resist ending: their
// processes and the runs must end within 5 seconds.
func TestCancelStopsTasks(t *testing.T) {
	s := start(t)
	mark := 100_000 + os.Getpid() // a child's argument by which to find it
	tasks := []string{"sleeps", "ignores", "catches", "spins", "forks"}
	for _, name := range tasks {
		s.upload(name, fmt.Sprintf(stubborn, mark), python(name))
		id := s.begin(client.RunRequest{Deployment: name}).RunID
		require.Eventually(t, func() bool {
			run, err := s.Run(t.Context(), id)
			require.NoError(t, err)
			return run.Task(name)[0].Status == "RUNNING" && s.said(id, "begun")
		}, time.Minute, 20*time.Millisecond, name)
		began := time.Now()
		require.NoError(t, s.Do(t.Context(), "POST", "/runs/"+id+"/cancel", nil, nil))
		run := s.end(id, 30*time.Second)
		took := time.Since(began)
		assert.Equal(t, "CANCELLED", run.Status, name)
		assert.Less(t, took, 5*time.Second, name)
		run, err := s.Run(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "CANCELLED", run.Task(name)[0].Status, name)
		t.Logf("%-8s %s", name, took.Round(time.Millisecond))
	}
	require.Eventually(t, func() bool { return len(running(t, fmt.Sprintf("time.sleep(%d)", mark))) == 0 }, 5*time.Second, 50*time.Millisecond,
		"what the tasks started is gone")
}

// said reports whether a run's task has written a line.
func (s *service) said(id, line string) bool {
	var page struct {
		Events []event `json:"events"`
	}
	require.NoError(s.t, s.Do(s.t.Context(), "GET", "/runs/"+id+"/logs", nil, &page))
	for _, e := range page.Events {
		if e.Message == line {
			return true
		}
	}
	return false
}
