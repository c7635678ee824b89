package interpreters

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An ordinary directory replaces the cgroup v2 tree, to check which files are
// written and how they are parsed.
func TestCgroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	mounts := write("mountinfo", "24 1 0:21 / /proc rw - proc proc rw\n35 28 0:29 /docker/x "+dir+" rw,nosuid - cgroup2 cgroup2 rw\n")
	self := write("self", "1:name=systemd:/x\n0::/docker/x\n")

	_, err := openCgroups(mounts, self)
	require.Error(t, err)
	write("cgroup.controllers", "cpu pids\n")
	_, err = openCgroups(mounts, self)
	require.ErrorContains(t, err, "no memory controller")
	write("cgroup.controllers", "cpu memory pids\n")
	g, err := openCgroups(mounts, self)
	require.NoError(t, err)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, "+memory +pids", read(filepath.Join(dir, "cgroup.subtree_control")))
	assert.Equal(t, "+memory +pids", read(filepath.Join(g.dir, "cgroup.subtree_control")))

	one, err := g.group("t1", 256<<20)
	require.NoError(t, err)
	assert.Equal(t, "268435456", read(filepath.Join(one.dir, "memory.max")))
	assert.Equal(t, "1", read(filepath.Join(one.dir, "memory.oom.group")))
	assert.Equal(t, "512", read(filepath.Join(one.dir, "pids.max")))
	assert.False(t, one.outOfMemory())
	require.NoError(t, os.WriteFile(filepath.Join(one.dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\n"), 0o644))
	assert.True(t, one.outOfMemory())

	// The group of another process must not be divided.
	write("self", "0::/docker/x/service\n")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "service"), 0o755))
	_, err = openCgroups(mounts, self)
	assert.ErrorContains(t, err, "Delegate=yes")
	write("self", "0::/elsewhere\n")
	_, err = openCgroups(mounts, self)
	assert.ErrorContains(t, err, "not mounted")
}
