package datadir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/datadir"
)

// tree returns the content of a directory's files by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	}))
	return out
}

func TestOpenCreatesDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "data")
	d, err := datadir.Open(path, "1.2.3")
	require.NoError(t, err)
	assert.Nil(t, d.Backup)
	assert.Equal(t, filepath.Join(path, "store"), d.Store())
	_, err = datadir.Open(path, "1.2.3")
	require.ErrorIs(t, err, datadir.ErrInUse)
	assert.ErrorContains(t, err, path)
	require.NoError(t, d.Close())
	made := tree(t, path)
	assert.JSONEq(t, `{"format":1,"version":"1.2.3"}`, made[filepath.Join(path, "format.json")])
	for name := range made {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}

	d, err = datadir.Open(path, "1.2.4")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	assert.Equal(t, made, tree(t, path), "what made it stays on record")
}

func TestExistingDirectoryBecomesPrivate(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o755))
	d, err := datadir.Open(path, "1.2.3")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// TestOtherFormatsAreRejected checks that one sentence tells which version
// opens the directory, and that nothing in it is changed.
func TestOtherFormatsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, content, want string }{
		"SQLite":               {"millrace.db", "SQLite format 3\x00", "Millrace c44bae1 was the last version to open"},
		"a later format":       {"format.json", `{"format":2,"version":"9.9"}`, "has format 2, made by Millrace 9.9"},
		"an unfinished backup": {"store/CURRENT", "", "a backup that was not finished"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, c.file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600))
		before := tree(t, dir)
		_, err := datadir.Open(dir, "1")
		require.ErrorIs(t, err, datadir.ErrFormat, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.NotContains(t, err.Error(), "\n", name)
		assert.Equal(t, before, tree(t, dir), name)
	}
}

// TestOlderProgramRejectsDirectory checks for the file in place of the former
// SQLite database, which keeps older versions from creating a new one.
func TestOlderProgramRejectsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := datadir.Open(dir, "1")
	require.NoError(t, err)
	defer d.Close()
	data, err := os.ReadFile(filepath.Join(dir, "millrace.db"))
	require.NoError(t, err)
	assert.NotEmpty(t, data, "an empty file is a SQLite database without tables")
	assert.NotContains(t, string(data), "SQLite format 3")
}

func TestDirectoryIsBackupUntilAdopted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	require.NoError(t, os.Mkdir(datadir.Store(dir), 0o700))
	require.NoError(t, datadir.MarkBackup(dir, datadir.Backup{Of: "/data", At: at, Version: "1"}))
	for range 2 {
		d, err := datadir.Open(dir, "1")
		require.NoError(t, err)
		assert.Equal(t, &datadir.Backup{Of: "/data", At: at, Version: "1"}, d.Backup)
		require.NoError(t, d.Close())
	}
	d, err := datadir.Open(dir, "1")
	require.NoError(t, err)
	require.NoError(t, d.Adopt())
	require.NoError(t, d.Adopt(), "again it does nothing")
	require.NoError(t, d.Close())
	d, err = datadir.Open(dir, "1")
	require.NoError(t, err)
	assert.Nil(t, d.Backup)
	require.NoError(t, d.Close())
}

func TestGitIgnoresDataDirectory(t *testing.T) {
	t.Parallel()
	open := func(path string) {
		d, err := datadir.Open(path, "1")
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	fresh := filepath.Join(t.TempDir(), ".millrace")
	open(fresh)
	ignore := filepath.Join(fresh, ".gitignore")
	assert.Equal(t, "*\n", tree(t, fresh)[ignore])

	require.NoError(t, os.Remove(ignore))
	open(fresh)
	assert.FileExists(t, ignore, "one of an earlier version gets it at its next start")

	require.NoError(t, os.WriteFile(ignore, []byte("mine\n"), 0o600))
	open(fresh)
	assert.Equal(t, "mine\n", tree(t, fresh)[ignore], "what the user wrote stays")
}

// TestDirectoryOfOthersIsLeftAlone names a project's folder, whose mode and files
// would be the server's.
func TestDirectoryOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "flow.py"), nil, 0o600))
	before := tree(t, dir)
	_, err := datadir.Open(dir, "1")
	require.ErrorIs(t, err, datadir.ErrForeign)
	require.ErrorContains(t, err, "has other files, such as flow.py: name a new or an empty directory, such as "+filepath.Join(dir, ".millrace"))
	assert.Equal(t, before, tree(t, dir))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm())
}

// TestInterruptedFirstStartIsCompleted opens a directory after each write of a first
// start, on a file system that has a folder of its own.
func TestInterruptedFirstStartIsCompleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() {
		d, err := datadir.Open(dir, "1")
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	open()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "millrace.db"), []byte("This data"), 0o600))
	for _, missing := range []string{"format.json", "millrace.db", ".gitignore", "lock"} {
		require.NoError(t, os.Remove(filepath.Join(dir, missing)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "format.json.1234"), nil, 0o600))
		require.NoError(t, datadir.Check(dir), missing)
	}
	open()
}

// TestDirectoryThatCannotBeLocked is not one in use: nobody has to be stopped.
func TestDirectoryThatCannotBeLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	_, err := datadir.Open(dir, "1")
	require.Error(t, err)
	require.NotErrorIs(t, err, datadir.ErrInUse)
}
