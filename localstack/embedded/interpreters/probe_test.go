//go:build unix

package interpreters_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
)

func TestCheckOfUnsuitableInterpreters(t *testing.T) {
	t.Parallel()
	script := func(body string) string {
		file := filepath.Join(t.TempDir(), "python")
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
		return file
	}
	for name, c := range map[string]struct{ python, want string }{
		"missing":       {"/nonexistent/python3", "/nonexistent/python3 does not run: no such file or directory"},
		"not on PATH":   {"no-such-python", "no-such-python does not run: executable file not found"},
		"a directory":   {t.TempDir(), "does not run"},
		"no Python":     {script("exit 0"), "is no Python interpreter"},
		"fails":         {script("echo first >&2; echo broken installation >&2; exit 1"), "does not run: broken installation"},
		"fails mutely":  {script("exit 3"), "does not run: exit status 3"},
		"3.9":           {script(`echo "3.9.18 /usr/bin/python3.9"`), "is Python 3.9.18, and tasks need 3.10 or newer"},
		"2.7":           {script(`echo "2.7.18 /usr/bin/python2.7"`), "is Python 2.7.18, and tasks need 3.10 or newer"},
		"of the future": {script(`echo "4.0.0 /usr/bin/python4"`), ""},
	} {
		err := interpreters.Check(t.Context(), c.python)
		if c.want == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.want, name)
	}
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	require.NoError(t, interpreters.Check(t.Context(), python))
}
