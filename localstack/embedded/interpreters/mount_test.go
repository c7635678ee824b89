//go:build unix

package interpreters_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

// homeDir returns a directory that is none of those that tasks have of their
// own, like a user's project.
func homeDir(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(home, "millrace-test-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	return dir
}

func TestMountsOfTooMuchAreRejected(t *testing.T) {
	t.Parallel()
	project := homeDir(t)
	data := filepath.Join(project, ".millrace")
	for _, dir := range []string{"rows", ".millrace/objects"} {
		require.NoError(t, os.MkdirAll(filepath.Join(project, dir), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(project, "file"), nil, 0o600))
	require.NoError(t, os.Symlink(data, filepath.Join(project, "link")))
	rows := filepath.Join(project, "rows")
	for text, want := range map[string]interpreters.Mount{
		rows:                 {Path: rows},
		rows + ":ro":         {Path: rows},
		rows + "/":           {Path: rows},
		rows + "/../rows:rw": {Path: rows, Writable: true},
	} {
		got, err := interpreters.ParseMounts([]string{text}, data)
		require.NoError(t, err, text)
		assert.Equal(t, []interpreters.Mount{want}, got, text)
	}
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for path, want := range map[string]string{
		"/": "whole machine", "/proc": "/proc of their own", "/proc/self": "/proc of their own", "/tmp": "/tmp of their own",
		"/var": "/var/tmp of their own", data: "data directory", filepath.Join(data, "objects"): "data directory",
		project: "data directory", filepath.Join(project, "link"): "data directory", filepath.Join(rows, "..", ".millrace"): "data directory",
		filepath.Join(project, "file"): "no directory", filepath.Join(project, "missing"): "no such file",
	} {
		_, err := interpreters.ParseMounts([]string{rows, path + ":rw"}, data)
		require.ErrorContains(t, err, want, path)
		assert.ErrorContains(t, err, path)
	}
	_, err = interpreters.ParseMounts([]string{home}, "/elsewhere")
	require.ErrorContains(t, err, "the whole home")
}

const files = `
import os
def read(path): return open(path).read()
def write(path):
    with open(path, "w") as file: file.write("written")
def names(path): return sorted(os.listdir(path))
`

// TestMountsBelowHiddenDirectory mounts two directories of a project that tasks
// do not see, one of them writable.
func TestMountsBelowHiddenDirectory(t *testing.T) {
	t.Parallel()
	project := homeDir(t)
	shown, written, secret := filepath.Join(project, "shown"), filepath.Join(project, "deep", "written"), filepath.Join(project, "secret")
	for _, dir := range []string{shown, written, secret} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("in "+filepath.Base(dir)), 0o644))
	}
	require.NoError(t, os.Chmod(written, 0o777)) // tasks of a server that is root have other users
	home, err := filepath.EvalSymlinks(filepath.Dir(project))
	require.NoError(t, err)
	r := newRig(t, func(c *interpreters.Config) {
		c.Hide = []string{home}
		c.Mounts = []interpreters.Mount{{Path: shown}, {Path: written, Writable: true}}
	})
	if !namespaces(t, r) {
		t.Log("tasks are not isolated here: they see all files as they are")
		return
	}
	run := func(function, path string) sandbox.Result {
		req := r.request(t, files, function)
		req.Params = map[string]json.RawMessage{"path": raw(`"` + path + `"`)}
		result, _ := r.run(t, req)
		return result
	}
	assert.Equal(t, `"in shown"`, output(t, run("read", shown+"/file")))
	assert.Equal(t, `"in written"`, output(t, run("read", written+"/file")))
	assert.Equal(t, `["deep","shown"]`, output(t, run("names", project)), "all else stays hidden")

	output(t, run("write", written+"/new"))
	content, err := os.ReadFile(filepath.Join(written, "new"))
	require.NoError(t, err)
	assert.Equal(t, "written", string(content))
	assert.Equal(t, `["file","new"]`, output(t, run("names", written)), "the next task finds it")

	for path, hint := range map[string]string{
		secret + "/file":             "tasks see nothing of " + home + ": start the server with --mount DIR",
		"/tmp/file-of-this-machine":  "tasks have a /tmp of their own",
		shown + "/missing":           "",
		"/etc/nothing-of-that-name":  "",
		"relative-and-missing-there": "",
	} {
		failure := run("read", path).Failure
		require.NotNil(t, failure, path)
		assert.Contains(t, failure.Message, "FileNotFoundError", path)
		if hint == "" {
			assert.NotContains(t, failure.Message, "tasks", path)
			continue
		}
		assert.Contains(t, failure.Message, hint, path)
	}
	for _, path := range []string{shown + "/new", "/usr/new"} {
		failure := run("write", path).Failure
		require.NotNil(t, failure, path)
		assert.NoFileExists(t, path)
		assert.Contains(t, failure.Message, "start the server with --mount DIR:rw", path)
	}
}
