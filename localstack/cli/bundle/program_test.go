package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNeeds(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"serve": true, "serve --help": true, "help serve": true, "__complete serve --": true, "cloud up --detach": true,
		"": false, "--help": false, "help": false, "version": false, "runs": false, "secrets set serve": false, "__complete ": false,
	} {
		assert.Equal(t, want, Needs(strings.Fields(line)), line)
	}
}

func TestProgramIsUnpackedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache", "millrace")
	p := Program{Name: "millrace", ID: "b", Content: "new"}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := p.unpack(dir)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	file, err := p.unpack(dir)
	require.NoError(t, err)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	before, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), before.Mode().Perm())

	_, err = p.unpack(dir)
	require.NoError(t, err)
	after, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "it was written again")

	// An incomplete file is written again.
	require.NoError(t, os.Truncate(file, 1))
	_, err = p.unpack(dir)
	require.NoError(t, err)
	content, err = os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "new", string(content))

	// Another build replaces it.
	_, err = Program{Name: "millrace", ID: "c", Content: "newer"}.unpack(dir)
	require.NoError(t, err)
	assert.NoFileExists(t, file)
}

// TestUnpackRejectsFoldersOfOtherUsers covers folders in which another user could
// have put a program.
func TestUnpackRejectsFoldersOfOtherUsers(t *testing.T) {
	t.Parallel()
	p := Program{Name: "millrace", ID: "a", Content: "new"}
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(t.TempDir(), link))
	folders := []string{open, link}
	if os.Geteuid() == 0 {
		foreign := t.TempDir()
		require.NoError(t, os.Chown(foreign, 12345, 12345))
		folders = append(folders, foreign)
	}
	for _, dir := range folders {
		_, err := p.unpack(dir)
		require.ErrorContains(t, err, "only this user may write to")
		assert.NoDirExists(t, filepath.Join(dir, p.ID))
	}
}
