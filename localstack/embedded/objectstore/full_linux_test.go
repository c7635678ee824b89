package objectstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// TestDiskFilledByOthers runs on a file system without free space, in a process of
// its own that may mount one.
func TestDiskFilledByOthers(t *testing.T) {
	if !mayMount(t) {
		return // that process has run it
	}
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
			t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
			if metadata == "sidecar" {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "objects", "sidecar"), 0o700))
			}
			f := start(t, config(dir))
			ctx, store := t.Context(), f.store
			_, err := blob.PutBytes(ctx, store, "org/a", []byte("kept"), blob.PutOptions{ContentType: "text/plain"})
			require.NoError(t, err)
			upload, err := store.CreateMultipart(ctx, "org/parts", "")
			require.NoError(t, err)
			part := f.sendPart(t, "org/parts", upload, string(make([]byte, 1<<20)))

			// With less and less space, writes fail at every step.
			filler, err := os.Create(filepath.Join(dir, "filler"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = filler.Close() })
			refused := 0
			for i := range 30 {
				fill(t, filler, (30-i)*2)
				key := fmt.Sprintf("org/new-%d/a/b/c", i)
				_, err := blob.PutBytes(ctx, store, key, bytes.Repeat([]byte("4 KB"), 10<<10), blob.PutOptions{ContentType: "text/plain"})
				if err == nil {
					require.NoError(t, store.Delete(ctx, key))
					continue
				}
				refused++
				requireFull(t, err, "the disk of the data directory is full")
				_, err = os.Stat(filepath.Join(dir, "objects", "buckets", bucket, key))
				assert.ErrorIs(t, err, os.ErrNotExist)
				_, err = os.Stat(filepath.Join(dir, "objects", "sidecar", bucket, key))
				assert.ErrorIs(t, err, os.ErrNotExist)
			}
			assert.Positive(t, refused)
			fill(t, filler, 0)
			requireFull(t, store.Copy(ctx, "org/a", "org/copy"), "is full")
			_, err = store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
			requireFull(t, err, "is full")

			objects, _, err := store.List(ctx, "org/", "", 0)
			require.NoError(t, err)
			require.Len(t, objects, 1, "%+v", objects)
			data, obj, err := blob.GetBytes(ctx, store, "org/a", 100)
			require.NoError(t, err)
			assert.Equal(t, "kept text/plain", string(data)+" "+obj.ContentType)
			require.NoError(t, filler.Truncate(0))
			_, err = store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
			require.NoError(t, err, "the upload can be completed when there is room")
		})
	}
}

// mountsVariable is the environment variable of a process that may mount file systems.
const mountsVariable = "MILLRACE_TEST_MOUNTS"

// mayMount reports whether the test runs in a process that may mount file systems,
// which nobody else sees. Otherwise it runs the test in one: root's, or the root's of a
// new user namespace. The test fails if there is none.
func mayMount(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountsVariable) != "" {
		// Of root alone, what is mounted would be passed on to the machine.
		require.NoError(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		return true
	}
	self, err := os.Executable()
	require.NoError(t, err)
	var out []byte
	for _, flags := range []uintptr{syscall.CLONE_NEWNS, syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER} {
		cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), mountsVariable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		if flags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		}
		out, err = cmd.CombinedOutput()
		if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
			continue // no such process may be made
		}
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name(), "it has not run")
		return false
	}
	require.NoError(t, err, "neither this user nor the root of a user namespace may mount a file system here: "+
		"allow user namespaces, or give a container CAP_SYS_ADMIN")
	return false
}

// fill leaves the given number of 4 KB blocks.
func fill(t *testing.T, filler *os.File, blocks int) {
	t.Helper()
	_, err := filler.Seek(0, 2)
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.True(t, errors.Is(err, syscall.ENOSPC), "%v", err)
	info, err := filler.Stat()
	require.NoError(t, err)
	require.NoError(t, filler.Truncate(max(0, info.Size()/4096-int64(blocks))*4096))
}
