package sandbox_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/sandbox"
)

// TestPythonPackage runs the Python side's own tests.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	// Reading them tells go test that its cached result depends on them.
	tests, err := filepath.Glob("python/tests/test_*.py")
	require.NoError(t, err)
	require.NotEmpty(t, tests)
	for _, name := range tests {
		_, err := os.ReadFile(name)
		require.NoError(t, err)
	}
	cmd := exec.Command("python3", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
	cmd.Dir = "python"
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "\nOK\n")
}

// TestEverySourceIsEmbedded checks the embed patterns: a missing file would
// only be noticed in the cloud.
func TestEverySourceIsEmbedded(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(os.DirFS("python"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == "tests" || path == "packaging" || d.Name() == "__pycache__") {
			return fs.SkipDir // only in the repository
		}
		if d.IsDir() || filepath.Ext(path) != ".py" {
			return nil
		}
		want, err := os.ReadFile(filepath.Join("python", path))
		require.NoError(t, err)
		got, err := fs.ReadFile(sandbox.Python(), path)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), path)
		return nil
	})
	require.NoError(t, err)
	for _, name := range []string{"lambda_handler.py", "millrace/__init__.py", "millrace/client/__init__.py", "runner/core.py"} {
		_, err := fs.Stat(sandbox.Python(), name)
		assert.NoError(t, err, name)
	}
}
