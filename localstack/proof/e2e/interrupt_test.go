//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// foreground is a server started as in a terminal.
type foreground struct {
	*exec.Cmd
	lines chan string // of stdout and stderr
}

func startForeground(t *testing.T, dir string, args ...string) *foreground {
	t.Helper()
	f := &foreground{exec.CommandContext(t.Context(), binary, append([]string{"serve"}, args...)...), make(chan string, 100)}
	f.Dir = dir
	read, write, err := os.Pipe()
	require.NoError(t, err)
	f.Stdout, f.Stderr = write, write
	require.NoError(t, f.Start())
	require.NoError(t, write.Close())
	go func() {
		defer close(f.lines)
		for scan := bufio.NewScanner(read); scan.Scan(); {
			f.lines <- scan.Text()
		}
	}()
	return f
}

// until returns what the server writes up to a line that contains text.
func (f *foreground) until(t *testing.T, text string) string {
	t.Helper()
	var seen bytes.Buffer
	for line := range f.lines {
		seen.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return seen.String()
		}
	}
	require.Fail(t, "the server never wrote "+text, seen.String())
	return ""
}

// code waits for the end of the server and returns its exit code.
func (f *foreground) code(t *testing.T) int {
	t.Helper()
	for range f.lines {
	}
	_ = f.Wait()
	return f.ProcessState.ExitCode()
}

// TestInterruptedServer interrupts a server while one of two tasks in sequence runs.
func TestInterruptedServer(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]bool{"once": false, "twice": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, page := dataDir(t), newCounter(t)
			page.hold("first")
			release := sync.OnceFunc(page.release)
			t.Cleanup(release)
			s := start(t, dir, "--allow-loopback")
			register(t, s.Client(), "pair", []task{page.call("first"), page.call("second", "first")})
			require.NoError(t, s.Stop())

			f := startForeground(t, filepath.Dir(dir), "--data", dir, "--listen", "127.0.0.1:0", "--allow-loopback")
			base := strings.TrimSpace(strings.TrimPrefix(lastLine(f.until(t, "  API ")), "  API"))
			api := &client.Client{BaseURL: base, Token: s.Credentials.APIKey}
			run, err := api.Start(t.Context(), client.RunRequest{FlowName: "pair", FlowVersion: "1"})
			require.NoError(t, err)
			page.waitFor(t, "first")

			require.NoError(t, f.Process.Signal(os.Interrupt))
			f.until(t, "finishing 1 task, interrupt again to stop now")
			if second {
				begin := time.Now()
				require.NoError(t, f.Process.Signal(os.Interrupt))
				assert.Equal(t, 130, f.code(t))
				assert.Less(t, time.Since(begin), 5*time.Second, "the task would be waited for longer")
				release()
			} else {
				release()
				assert.Zero(t, f.code(t))
				assert.Equal(t, 1, page.counts()["first"])
			}
			assert.Zero(t, page.counts()["second"], "no task is begun after an interrupt")

			done := finish(t, start(t, dir, "--allow-loopback").Client(), run.RunID)
			assert.Len(t, done.Task("second"), 1)
			assert.Equal(t, 1, page.counts()["second"], "the next start goes on")
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// TestStartPrintsDataAndIsolation starts a server without a flag for its data.
func TestStartPrintsDataAndIsolation(t *testing.T) {
	t.Parallel()
	project := filepath.Dir(dataDir(t))
	f := startForeground(t, project, "--listen", "127.0.0.1:0", "--python-slots", "7")
	banner := f.until(t, "  Python")
	assert.Contains(t, banner, "serves "+filepath.Join(project, ".millrace"))
	assert.Contains(t, banner, "http://127.0.0.1:")
	assert.Regexp(t, `Python +/.*python3\S* 3\.\d+\.\d+, 7 slots, (not )?isolated \(`, banner)
	assert.FileExists(t, filepath.Join(project, ".millrace", ".gitignore"))
	require.NoError(t, f.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, f.code(t))
}

func TestFailedStartPrintsRemedy(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := dataDir(t)
	for want, args := range map[string][]string{
		"choose another address with --listen":                             {"--listen", taken.Addr().String()},
		"--python: /nonexistent/python does not run: no such file":         {"--listen", "127.0.0.1:0", "--python", "/nonexistent/python"},
		"--mount: /: it is the whole machine":                              {"--listen", "127.0.0.1:0", "--mount", "/"},
		"--mount: /proc/self:rw: tasks have a /proc of their own, choose ": {"--listen", "127.0.0.1:0", "--mount", "/proc/self:rw"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"serve", "--data", dir}, args...)...).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), want)
		assert.Equal(t, 1, strings.Count(string(out), "\n"), "one sentence: %s", out)
	}
}

// TestErrorOfLoopbackNamesFlag runs an http task that calls this machine.
func TestErrorOfLoopbackNamesFlag(t *testing.T) {
	t.Parallel()
	page := newCounter(t)
	s := start(t, dataDir(t))
	register(t, s.Client(), "near", []task{page.call("here")})
	run, err := s.Client().Start(t.Context(), client.RunRequest{FlowName: "near", FlowVersion: "1", Execute: true})
	require.NoError(t, err)
	assert.Contains(t, run.Task("here")[0].ErrorMessage, "start the server with --allow-loopback")
	assert.Empty(t, page.counts())
}
