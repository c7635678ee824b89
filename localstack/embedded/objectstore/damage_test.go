package objectstore_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
)

// TestDamageIsDetected when an object is read whole: by its reader, in the log
// and by the callback.
func TestDamageIsDetected(t *testing.T) {
	var damaged []string
	cfg := config(t.TempDir())
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.OnLost = func(key, why string) {
		assert.Equal(t, objectstore.Damaged, why)
		damaged = append(damaged, key)
	}
	f := start(t, cfg)
	path := func(key string) string { return filepath.Join(cfg.Dir, "objects", "buckets", bucket, key) }
	if _, err := os.Stat(filepath.Join(cfg.Dir, "objects", "sidecar")); err == nil {
		t.Fatal("the temporary directory's file system has no extended attributes, which this test needs")
	}
	put := func(key string, data []byte) {
		_, err := blob.PutBytes(t.Context(), f.store, key, data, blob.PutOptions{})
		require.NoError(t, err)
	}
	put("org/small", []byte("content"))
	put("org/empty", nil)
	large := bytes.Repeat([]byte("large"), 8<<20)
	put("org/large", large)
	const first = "a first part that is not the last\n"
	id, err := f.store.CreateMultipart(t.Context(), "org/parts", "")
	require.NoError(t, err)
	_, err = f.store.CompleteMultipart(t.Context(), "org/parts", id, []blob.Part{f.sendPart(t, "org/parts", id, first)})
	require.NoError(t, err)

	for _, key := range []string{"org/small", "org/empty", "org/large", "org/parts"} {
		_, _, err := blob.GetBytes(t.Context(), f.store, key, 1<<30)
		require.NoError(t, err, key)
	}
	require.Empty(t, damaged)

	change := func(key string, at int64, text string) {
		file, err := os.OpenFile(path(key), os.O_RDWR, 0) // keep its attributes
		require.NoError(t, err)
		_, err = file.WriteAt([]byte(text), at)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	change("org/small", 3, "X")
	change("org/empty", 0, "more")
	change("org/parts", 10, "another")
	for _, key := range []string{"org/small", "org/empty", "org/parts"} {
		_, _, err := blob.GetBytes(t.Context(), f.store, key, 1<<30)
		require.ErrorIs(t, err, blob.ErrDamaged, key)
	}
	require.NoError(t, os.Truncate(path("org/parts"), 5))
	_, _, err = blob.GetBytes(t.Context(), f.store, "org/parts", 1<<30)
	require.ErrorIs(t, err, blob.ErrDamaged)
	assert.Equal(t, []string{"org/small", "org/empty", "org/parts", "org/parts"}, damaged)

	// A large object is cut off before its end.
	change("org/large", 5, "X")
	link, err := f.store.PresignGet(t.Context(), "org/large", time.Minute, "")
	require.NoError(t, err)
	res, err := http.Get(link)
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, res.Body)
	require.Error(t, err)
	assert.Less(t, n, int64(len(large)))
	require.NoError(t, res.Body.Close())

	body, _, err := f.store.Get(t.Context(), "org/small", &blob.Range{Offset: 0, Length: 3})
	require.NoError(t, err, "a part is not checked")
	require.NoError(t, body.Close())
	require.NoError(t, f.server.Close())
	assert.Equal(t, "org/large", damaged[4])
}

// TestMissingObjectsAreReported when they are read, not when they are looked
// up.
func TestMissingObjectsAreReported(t *testing.T) {
	var lost []string
	cfg := config(t.TempDir())
	cfg.OnLost = func(key, why string) { lost = append(lost, why+" "+key) }
	f := start(t, cfg)
	_, err := f.store.Head(t.Context(), "org/a")
	require.ErrorIs(t, err, blob.ErrNotFound)
	_, _, err = blob.GetBytes(t.Context(), f.store, "org/b", 1)
	require.ErrorIs(t, err, blob.ErrNotFound)
	require.NoError(t, f.server.Close())
	assert.Equal(t, []string{"missing org/b"}, lost)
}
