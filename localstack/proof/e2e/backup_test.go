package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
)

// cli runs the binary and returns its output and exit code.
func cli(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

const greeting = "def hello(ctx):\n    return 'x' * 50000\n"

// TestBackupOfRunningServer: a copy made while the server runs is a data
// directory with its runs, code, large outputs and keys. Nothing falls due on a
// server that uses it, until it is adopted.
func TestBackupOfRunningServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir)
	api := s.Client()
	deploy(t, api, "hello", greeting, []task{{Name: "hello", Type: "python", Entrypoint: "flow:hello"}})
	first, err := api.Start(t.Context(), client.RunRequest{Deployment: "hello", Execute: true})
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", first.Status)

	to := filepath.Join(t.TempDir(), "copies", "monday")
	out, stderr, code := cli(t, "backup", "--data", dir, to)
	require.Zero(t, code, "%s", stderr)
	assert.Contains(t, out, to)
	later, err := api.Start(t.Context(), client.RunRequest{Deployment: "hello", Execute: true})
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, "%s is the owner's alone", path)
		return nil
	}))

	_, stderr, code = cli(t, "backup", "--data", dir, to)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "is not empty")
	_, stderr, code = cli(t, "backup", "--data", dir, filepath.Join(dir, "within"))
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "within the data directory")
	_, _, code = cli(t, "backup", "--data", dir)
	assert.Equal(t, 2, code, "no directory to back up to")
	for _, elsewhere := range [][]string{{"backup", to + "3"}, {"dump"}} { // no server and no data in .millrace
		_, stderr, code = cli(t, elsewhere...)
		assert.Equal(t, 1, code, "%v", elsewhere)
		assert.Contains(t, stderr, ".millrace", "%v", elsewhere)
	}
	// The API key is not the local secret.
	err = api.Do(t.Context(), http.MethodPost, server.BackupPath, server.BackupRequest{Directory: to + "2"}, nil)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.Status)

	// Beside the original server.
	copied := start(t, to)
	assert.Contains(t, copied.Output(), "nothing falls due here until the server is started with --adopt")
	assert.Equal(t, s.Credentials.APIKey, copied.Credentials.APIKey)
	output := func(api *client.Client) (out json.RawMessage) {
		require.NoError(t, api.Do(t.Context(), http.MethodGet, "/runs/"+first.RunID, nil, &out))
		return out
	}
	assert.JSONEq(t, string(output(api)), string(output(copied.Client())))
	large := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(to, "objects"), func(path string, d fs.DirEntry, err error) error {
		if data, _ := os.ReadFile(path); bytes.Contains(data, bytes.Repeat([]byte("x"), 50000)) {
			large++
		}
		return err
	}))
	assert.Equal(t, 1, large, "the large output of the run before the backup")
	_, err = copied.Client().Run(t.Context(), later.RunID)
	assert.Error(t, err, "it was made after the backup")
	again, err := copied.Client().Start(t.Context(), client.RunRequest{Deployment: "hello", Execute: true})
	require.NoError(t, err)
	assert.Equal(t, "SUCCEEDED", again.Status, "the code is there")
	require.NoError(t, copied.Stop())

	adopted := start(t, to, "--adopt")
	assert.NotContains(t, adopted.Output(), "--adopt")
	require.NoError(t, adopted.Stop())
	assert.NotContains(t, start(t, to).Output(), "--adopt", "once is enough")
}

// TestDump prints the content of a stopped server's data directory and changes
// nothing.
func TestDump(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir)
	_, stderr, code := cli(t, "dump", "--data", dir)
	assert.Equal(t, 3, code)
	assert.Contains(t, stderr, "in use")
	require.NoError(t, s.Stop())
	out, stderr, code := cli(t, "dump", "--data", dir)
	require.Zero(t, code, "%s", stderr)
	again, stderr, code := cli(t, "dump", "--data", dir)
	require.Zero(t, code, "%s", stderr)
	assert.Equal(t, out, again)
	items := 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var line struct{ Item, Message map[string]any }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		if line.Item != nil {
			assert.NotEmpty(t, line.Item["pk"])
			items++
		}
	}
	assert.Positive(t, items)
	assert.Contains(t, out, s.Credentials.OrgID)
	_, stderr, code = cli(t, "dump", "--data", t.TempDir())
	assert.Equal(t, 1, code)
	assert.NotContains(t, stderr, "panic")
}

// TestOldDataDirectoryIsRejected checks for one sentence that names the version
// that opens it.
func TestOldDataDirectoryIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "millrace.db"), []byte("SQLite format 3\x00"), 0o600))
	for _, args := range [][]string{{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, {"dump", "--data", dir}} {
		_, stderr, code := cli(t, args...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "Millrace c44bae1 was the last version to open")
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "%s", stderr)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// TestFilesArePrivateWhateverTheUmask starts the server with an umask of 0.
// Only what Python tasks read may belong to another user.
func TestFilesArePrivateWhateverTheUmask(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	script := filepath.Join(t.TempDir(), "serve")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\numask 0\nexec "+binary+" \"$@\"\n"), 0o700))
	s := startOf(t, script, dir)
	deploy(t, s.Client(), "hello", greeting, []task{{Name: "hello", Type: "python", Entrypoint: "flow:hello"}})
	run, err := s.Client().Start(t.Context(), client.RunRequest{Deployment: "hello", Execute: true})
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", run.Status)
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		if d.IsDir() && path == filepath.Join(dir, "python") {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
			files++
		}
		return nil
	}))
	assert.Greater(t, files, 8)
}
