package objectstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// TestDiskFilledByOthers runs on a file system without free space, which only
// root can mount.
func TestDiskFilledByOthers(t *testing.T) {
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
				t.Skip("cannot mount a small file system: ", err)
			}
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
