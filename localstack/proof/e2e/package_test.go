package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "millrace/functions/sandbox" // the sources of the Python package
)

// packageDir is the Python side of the repository.
const packageDir = "../../../functions/sandbox/python"

// command runs a program in the Python side's folder, without this machine's
// configuration, and returns its standard output.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PIP_CONFIG_FILE="+os.DevNull, "PIP_NO_INDEX=1",
		"MILLRACE_URL=", "MILLRACE_API_KEY=", "MILLRACE_ORG=")
	cmd.Env = append(cmd.Env, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s\n%s%s", name, args, out, stderr.String())
	return strings.TrimSpace(string(out))
}

// sources returns the absolute path of the Python side. It reads the files, so
// that go test does not cache the result when they change.
func sources(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(packageDir)
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".py" {
			_, err = os.ReadFile(path)
		}
		return err
	}))
	return dir
}

// TestPythonClient checks that the client finds the server by the data
// directory of its working directory.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	source := sources(t)
	project := filepath.Dir(dataDir(t))
	start(t, filepath.Join(project, ".millrace"))
	below := filepath.Join(project, "etl", "flows")
	require.NoError(t, os.MkdirAll(below, 0o755))
	command(t, below, []string{"PYTHONPATH=" + source}, "python3", "-m", "unittest", "tests.live_client")
}

// inspect compares its own installation with RECORD, and prints the installed
// packages.
const inspect = `
import base64, hashlib, importlib.metadata, importlib.util, sys
import millrace, millrace.client
dist = importlib.metadata.distribution("millrace")
assert dist.version == millrace.__version__ == dist.metadata["Version"], dist.version
assert dist.metadata["Requires-Python"] == ">=3.10"
checked = 0
for file in dist.files:
    if file.hash is not None:
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, file.read_binary()).digest()).rstrip(b"=").decode()
        assert digest == file.hash.value, file
        checked += 1
assert checked > 3, checked
for name in ("runner", "tests", "packaging", "backend", "lambda_handler"):
    spec = importlib.util.find_spec(name)
    assert spec is None or "functions" not in str(spec.origin), spec
print(millrace.Client.__name__, millrace.__file__)
`

// TestPythonPackageIsInstalled installs the package in each possible way,
// without a network, in one environment after the other.
func TestPythonPackageIsInstalled(t *testing.T) {
	t.Parallel()
	source, dir := sources(t), t.TempDir()
	env := filepath.Join(dir, "venv")
	command(t, dir, nil, "python3", "-m", "venv", env)
	bin := filepath.Join(env, "bin")
	pip := func(args ...string) {
		command(t, dir, nil, filepath.Join(bin, "python"), append([]string{"-m", "pip", "--disable-pip-version-check"}, args...)...)
	}
	installed := func() string { return command(t, dir, nil, filepath.Join(bin, "python"), "-c", inspect) }
	script := filepath.Join(bin, "millrace")

	wheel := command(t, dir, nil, "python3", filepath.Join(source, "packaging", "binary.py"), binary, runtime.GOOS+"/"+runtime.GOARCH, "-o", dir)

	pip("install", wheel)
	assert.Contains(t, installed(), env)
	assert.Equal(t, command(t, dir, nil, binary, "version"), command(t, dir, nil, script, "version"), "the script is the binary")

	for _, args := range [][]string{{"--no-build-isolation"}, nil} {
		pip(append([]string{"install", "--force-reinstall", source}, args...)...)
		assert.Contains(t, installed(), env)
		assert.Contains(t, command(t, dir, nil, script, "--help"), "spec")
	}
	pip("install", "--force-reinstall", "--no-build-isolation", "--editable", source)
	assert.Contains(t, installed(), source, "edits are seen")
	assert.Contains(t, command(t, dir, nil, script, "--help"), "spec")
}
