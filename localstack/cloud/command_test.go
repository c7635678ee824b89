package cloud_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/cloud/cloudtest"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/proc/proctest"
)

// local runs millrace.
func local(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// children returns the descendants of a process, command lines by process id.
func children(t *testing.T, of string) map[int]string {
	t.Helper()
	parents := map[string]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range stats {
		if data, err := os.ReadFile(path); err == nil { // it may have ended
			fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
			parents[strings.Split(path, "/")[2]] = fields[1]
		}
	}
	out := map[int]string{}
	for pid := range parents {
		for up := parents[pid]; up != "" && up != "0"; up = parents[up] {
			if up == of {
				line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // it may have ended
				number, err := strconv.Atoi(pid)
				require.NoError(t, err)
				out[number] = string(line)
			}
		}
	}
	return out
}

// TestUpAndDown runs the stack as make does: in the background, until it is
// stopped.
func TestUpAndDown(t *testing.T) {
	t.Parallel()
	templates, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(templates, cloudtest.Templates(t, "millrace-up-test")))
	up := []string{"cloud", "up", "--template", templates, "--data", dir, "--bootstrap", binary, "--on", "emulators", "--listen", "127.0.0.1:0", "--detach"}
	t.Cleanup(func() { _ = exec.Command(program, "cloud", "down", "--data", dir).Run() }) // it may be stopped already

	began := time.Now()
	out, code := local(t, up...)
	require.Zero(t, code, out)
	t.Logf("up after %v\n%s", time.Since(began).Round(time.Millisecond), out)
	assert.Contains(t, out, "on emulators (it was asked for)")
	data, err := os.ReadFile(filepath.Join(dir, signin.CredentialsFile))
	require.NoError(t, err)
	var known signin.Credentials
	require.NoError(t, json.Unmarshal(data, &known))
	api := &client.Client{BaseURL: known.BaseURL, Token: known.APIKey}
	health, err := api.WaitHealthy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "healthy", health.Status)
	assert.FileExists(t, filepath.Join(dir, "logs", "millrace-up-test-health.log"))
	out, code = local(t, up...)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "it is up already")

	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	running := children(t, strings.TrimSpace(string(pid)))
	require.GreaterOrEqual(t, len(running), 3, "the emulators and a function: %v", running)
	began = time.Now()
	out, code = local(t, "cloud", "down", "--data", dir)
	require.Zero(t, code, out)
	t.Logf("down after %v", time.Since(began).Round(time.Millisecond))
	for number, line := range running {
		assert.True(t, proctest.Gone(number), "process %d lives on: %s", number, line)
	}
	require.Error(t, api.Do(t.Context(), "GET", "/health", nil, nil))
	out, code = local(t, "cloud", "down", "--data", dir)
	assert.Zero(t, code)
	assert.Contains(t, out, "nothing is up")
}

func TestUpReportsMissingPrerequisites(t *testing.T) {
	t.Parallel()
	empty, templates := t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(templates, cloudtest.Templates(t, "millrace-up-test")))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--template", empty}, 1, "no file *.template.json (make synth writes it)"},
		{[]string{"--template", templates, "--bootstrap", filepath.Join(empty, "none")}, 1, "make bootstrap builds it"},
		{[]string{"--template", templates, "--on", "aws"}, 2, `--on is auto, localstack or emulators, not "aws"`},
		{[]string{"--template", empty, "--detach"}, 1, "no file *.template.json"},
	} {
		out, code := local(t, append([]string{"cloud", "up", "--data", filepath.Join(empty, "data")}, c.args...)...)
		assert.Equal(t, c.code, code, out)
		assert.Contains(t, out, c.want)
	}
}
