//go:build unix

package interpreters_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
)

// newVenv creates a virtual environment below a directory, with a module in it,
// and returns its interpreter.
func newVenv(t *testing.T, parent string) string {
	t.Helper()
	root := filepath.Join(parent, ".venv")
	out, err := exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", root).CombinedOutput()
	require.NoError(t, err, "%s", out)
	python := filepath.Join(root, "bin", "python")
	site, err := exec.CommandContext(t.Context(), python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").Output()
	require.NoError(t, err)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(strings.TrimSpace(string(site)), name), []byte(text), 0o644))
	}
	write("venv_only.py", "where = __file__\n")
	write("talk.pth", "import sys; print('noise of a .pth file')\n")
	return python
}

const venvTask = `
import os, sys
def f():
    import venv_only
    home = os.path.dirname(os.path.dirname(sys.executable))
    try:
        open(venv_only.where, "a")
        written = True
    except OSError:
        written = False
    return [os.path.exists(venv_only.where), os.path.exists(sys.executable), os.path.exists(os.path.join(os.path.dirname(home), "private")), written]
`

func TestVenvOfConfiguredInterpreterIsVisible(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	python := newVenv(t, home)
	require.NoError(t, os.WriteFile(filepath.Join(home, "private"), nil, 0o644))
	own, err := os.UserHomeDir() // the interpreter itself may be in it
	require.NoError(t, err)
	r := newRig(t, func(c *interpreters.Config) { c.Python, c.Hide = python, []string{own, filepath.Dir(home), home} })
	mode, version, err := r.Mode(t.Context())
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(version, python), version)
	result, _ := r.run(t, r.request(t, venvTask, "f"))
	want := `[true,true,true,` // without namespaces nothing is hidden
	if strings.Contains(mode, "namespaces") {
		want = `[true,true,false,false]`
	}
	assert.Contains(t, output(t, result), want, mode)
}

func TestVenvOnPathIsNotVisible(t *testing.T) {
	python := newVenv(t, t.TempDir())
	t.Setenv("PATH", filepath.Dir(python)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r := newRig(t)
	result, _ := r.run(t, r.request(t, venvTask, "f"))
	require.NotNil(t, result.Failure)
	assert.Contains(t, result.Failure.Message, "venv_only")
}

// TestArtifactPrecedesVenv checks that the artifact's modules take precedence
// over those of the environment.
func TestArtifactPrecedesVenv(t *testing.T) {
	t.Parallel()
	python := newVenv(t, t.TempDir())
	r := newRig(t, func(c *interpreters.Config) { c.Python = python })
	result, _ := r.run(t, r.request(t, "import sys\ndef f():\n    return ['site-packages' in p for p in sys.path]\n", "f"))
	assert.Regexp(t, `^\[(false,)+true\]$`, output(t, result))
}

func TestVenvUnreadableToTasksIsRejected(t *testing.T) {
	t.Parallel()
	python := newVenv(t, t.TempDir())
	sites, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(python)), "lib", "*", "site-packages"))
	require.NoError(t, err)
	require.Len(t, sites, 1)
	require.NoError(t, os.Chmod(sites[0], 0))
	t.Cleanup(func() { _ = os.Chmod(sites[0], 0o755) })
	r := newRig(t, func(c *interpreters.Config) { c.Python = python })
	_, _, err = r.Mode(t.Context())
	assert.ErrorContains(t, err, "cannot be read by the user that tasks run as")
}

func TestRuntimeOfInterpreter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, version, err := r.Mode(t.Context())
	require.NoError(t, err)
	told, err := r.Runtime(t.Context())
	require.NoError(t, err)
	assert.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, told.Platform)
	assert.Regexp(t, `^3\.\d+$`, told.Python)
	assert.Contains(t, version, " "+told.Python+".")
}

// TestVenvInAWritableMount: the environment stays read-only in a directory of the
// operator that tasks may write to, unless the operator names it, too.
func TestVenvInAWritableMount(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]bool{"left": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project := homeDir(t)
			require.NoError(t, os.Chmod(project, 0o777)) // tasks of a server that is root are other users
			python := newVenv(t, project)
			home, err := filepath.EvalSymlinks(filepath.Dir(project))
			require.NoError(t, err)
			own, err := os.UserHomeDir()
			require.NoError(t, err)
			r := newRig(t, func(c *interpreters.Config) {
				c.Python, c.Hide = python, []string{home, own}
				c.Mounts = []interpreters.Mount{{Path: project, Writable: true}}
				if named {
					c.Mounts = append(c.Mounts, interpreters.Mount{Path: filepath.Join(project, ".venv"), Writable: true})
				}
			})
			if !namespaces(t, r) {
				t.Log("tasks are not isolated here: they see all files as they are")
				return
			}
			sites, err := filepath.Glob(filepath.Join(project, ".venv", "lib", "*", "site-packages"))
			require.NoError(t, err)
			require.Len(t, sites, 1)
			require.NoError(t, os.Chmod(sites[0], 0o777))
			task := `
import os, venv_only
def writes(directory):
    try:
        open(os.path.join(directory, "new"), "w").close()
    except OSError:
        return False
    return True
def f(): return [writes(` + "'" + project + "'" + `), writes(os.path.dirname(venv_only.where))]
`
			result, _ := r.run(t, r.request(t, task, "f"))
			want := `[true,false]`
			if named {
				want = `[true,true]`
			}
			assert.Equal(t, want, output(t, result))
		})
	}
}
