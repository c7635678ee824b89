package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proc/proctest"
)

// TestBinaryRunsItsEmbeddedProgram builds the users' binary with a script embedded
// instead of the full program.
func TestBinaryRunsItsEmbeddedProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "bundle", "program"):    write("script", "#!/bin/sh\necho \"$$\" \"$@\"\nexit 7\n"),
		filepath.Join(here, "bundle", "program.id"): write("id", "x/y\n"),
	}})
	require.NoError(t, err)
	binary := filepath.Join(dir, "millrace")
	require.NoError(t, proctest.Build(binary, proctest.Local, "-tags", "bundle", "-overlay", write("overlay.json", string(overlay))))

	home, temporary := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	require.NoError(t, os.Mkdir(temporary, 0o700))
	run := func(environment []string, args ...string) (out string, pid, code int) {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(environment, "TMPDIR="+temporary)
		answer, err := cmd.Output()
		ended, wrong := errors.AsType[*exec.ExitError](err)
		if !wrong {
			require.NoError(t, err)
			return string(answer), cmd.Process.Pid, 0
		}
		return string(answer), cmd.Process.Pid, ended.ExitCode()
	}
	withHome := []string{"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache")}
	for _, args := range [][]string{{"version"}, {"--help"}, {"runs", "--help"}, {"completion", "bash"}, {"__complete", "se"}} {
		_, _, code := run(withHome, args...)
		assert.Zero(t, code, args)
	}
	out, _, code := run(withHome, "__complete", "se")
	assert.Zero(t, code)
	assert.Contains(t, out, "serve\tServe the API")
	assert.NoDirExists(t, home, "nothing was unpacked")

	for _, c := range []struct {
		environment []string
		unpacked    string
	}{
		{withHome, filepath.Join(home, "cache", "millrace", "x.y", "millrace")},
		{withHome, filepath.Join(home, "cache", "millrace", "x.y", "millrace")},
		{nil, filepath.Join(temporary, "millrace-*", "x.y", "millrace")},
	} {
		out, pid, code := run(c.environment, "serve", "--listen", "a b")
		assert.Equal(t, 7, code)
		assert.Equal(t, fmt.Sprintf("%d serve --listen a b\n", pid), out)
		found, err := filepath.Glob(c.unpacked)
		require.NoError(t, err)
		assert.Len(t, found, 1, c.unpacked)
	}

	// If it can be unpacked nowhere, the error names the folders.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	cmd := exec.CommandContext(t.Context(), binary, "serve")
	cmd.Env = []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "file"), "TMPDIR=" + filepath.Join(dir, "file")}
	answer, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(answer), "XDG_CACHE_HOME")
}
