package proc_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
)

// shell runs a script until the test ends.
func shell(t *testing.T, script string) *proc.Child {
	t.Helper()
	c, err := proc.Start(exec.Command("sh", "-c", script), nil)
	require.NoError(t, err)
	t.Cleanup(c.Kill)
	return c
}

func never(context.Context) error { return assert.AnError }

// says returns a function that succeeds when the child's output is output.
func says(c *proc.Child, output string) func(context.Context) error {
	return func(context.Context) error {
		if c.Output() != output {
			return assert.AnError
		}
		return nil
	}
}

func TestEndedChildReportsOutput(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c, err := proc.Start(exec.Command("sh", "-c", "echo no such option >&2; exit 3"), &log)
	require.NoError(t, err)
	require.EqualError(t, c.AwaitReady(t.Context(), time.Minute, never),
		"it ended before it was ready: exit status 3; it wrote:\nno such option")
	c.Kill()
	require.EqualError(t, c.Stop(), "exit status 3; it wrote:\nno such option")
	assert.Equal(t, "no such option\n", log.String())
	_, err = proc.Start(exec.Command("/no/such/program"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestChildThatIsNeverReadyIsKilled(t *testing.T) {
	t.Parallel()
	c := shell(t, "echo still starting; exec sleep 600")
	require.NoError(t, c.AwaitReady(t.Context(), time.Minute, says(c, "still starting\n")))
	err := c.AwaitReady(t.Context(), 20*time.Millisecond, never)
	require.ErrorIs(t, err, assert.AnError)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "still starting")
	<-c.Exited()
	assert.Contains(t, c.Ending(), "signal: killed")
}

// polite is a program that ends when it is terminated.
func polite(string) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	fmt.Println("up")
	if err := proc.Ready(os.Stdout, ""); err != nil {
		return err
	}
	<-told
	fmt.Println("bye")
	return nil
}

func TestStopTerminatesChild(t *testing.T) {
	t.Parallel()
	c := proctest.Start(t, "polite", "")
	_, err := c.Await(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Stop())
	assert.Equal(t, "up\nbye\n", c.Output())
}

func TestKillEndsProcessTree(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	c := shell(t, "sleep 600 & echo $! > "+file+".new; mv "+file+".new "+file+"; wait")
	require.NoError(t, c.AwaitReady(t.Context(), time.Minute, func(context.Context) error {
		_, err := os.Stat(file)
		return err
	}))
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	c.Kill()
	c.Kill()
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	require.NoError(t, err)
	proctest.RequireGone(t, number)
}

// parent runs a child until it is killed.
func parent(string) error {
	c, err := proc.Start(exec.Command("sleep", "600"), nil)
	if err != nil {
		return err
	}
	if err := proc.Ready(os.Stdout, strconv.Itoa(c.PID())); err != nil {
		return err
	}
	<-c.Exited()
	return nil
}

// TestChildDiesWithParent kills a process that runs a child, as a test's
// time-out does.
func TestChildDiesWithParent(t *testing.T) {
	t.Parallel()
	c := proctest.Start(t, "parent", "")
	message, err := c.Await(t.Context())
	require.NoError(t, err)
	pid, err := strconv.Atoi(message)
	require.NoError(t, err)
	assert.False(t, proctest.Gone(pid))
	process, err := os.FindProcess(c.PID())
	require.NoError(t, err)
	require.NoError(t, process.Kill(), "itself, not its tree")
	<-c.Exited()
	proctest.RequireGone(t, pid)
}

func TestFailedRoleIsReported(t *testing.T) {
	t.Parallel()
	_, err := proctest.Start(t, "nobody", "").Await(t.Context())
	require.EqualError(t, err, "it ended before it was ready: exit status 1; it wrote:\nno role \"nobody\"")
}
