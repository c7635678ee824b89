package proc_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
)

// TestMain also runs the background program and the parent of a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "daemon" {
		os.Exit(background(os.Args[2], os.Args[3:]...))
	}
	proctest.Play(map[string]func(string) error{"parent": parent, "polite": polite})
	os.Exit(m.Run())
}

func background(dir string, how ...string) int {
	lock, err := proc.Take(dir)
	if err != nil {
		fmt.Println(err)
		return 7
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	mode := append(how, "")[0]
	switch mode {
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "silent":
		<-ended
		return 0
	case "done":
		fmt.Println("nothing to do")
		return 0
	case "begets": // a child must not block the caller
		if err := exec.Command("sleep", "5").Start(); err != nil {
			return 1
		}
	}
	if err := proc.Ready(os.Stdout, "up\n"); err != nil {
		return 1
	}
	<-ended
	_ = lock.Unlock()
	return 0
}

func spawn(t *testing.T, dir string, how ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	message, err := proc.Spawn(ctx, dir, self, append([]string{"daemon", dir}, how...)...)
	if err == nil {
		t.Cleanup(func() {
			_, err := proc.Stop(context.Background(), dir, time.Millisecond)
			assert.NoError(t, err)
		})
	}
	return message, err
}

func TestDirectoryHasOneProgram(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	was, err := proc.Stop(t.Context(), dir, time.Second)
	require.NoError(t, err)
	assert.False(t, was)

	began := time.Now()
	message, err := spawn(t, dir, "begets")
	require.NoError(t, err)
	assert.Equal(t, "up\n", message)
	assert.Less(t, time.Since(began), 4*time.Second, "its child is not waited for")
	_, err = spawn(t, dir)
	require.ErrorContains(t, err, "exit status 7; it wrote:\nit is up already in "+dir)
	_, err = proc.Take(dir)
	require.ErrorIs(t, err, proc.ErrRunning)

	was, err = proc.Stop(t.Context(), dir, 20*time.Second)
	require.NoError(t, err)
	assert.True(t, was)
	lock, err := proc.Take(dir)
	require.NoError(t, err, "it is gone")
	require.NoError(t, lock.Unlock())
	was, err = proc.Stop(t.Context(), dir, time.Second)
	require.NoError(t, err)
	assert.False(t, was)
}

func TestStubbornProgramIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := spawn(t, dir, "stubborn")
	require.NoError(t, err)
	was, err := proc.Stop(t.Context(), dir, 10*time.Millisecond)
	require.NoError(t, err)
	assert.True(t, was)
}

func TestProgramWithoutNoticeFails(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = proc.Spawn(ctx, t.TempDir(), self, "daemon", t.TempDir(), "silent")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = proc.Spawn(t.Context(), t.TempDir(), self, "daemon", t.TempDir(), "done")
	require.EqualError(t, err, "it ended before it was ready: exit status 0; it wrote:\nnothing to do")
	_, err = proc.Spawn(t.Context(), t.TempDir(), "/no/such/program")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestNoticeWithoutCallerIsPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, proc.Ready(&out, "up"))
	assert.Equal(t, "up", out.String())
}
