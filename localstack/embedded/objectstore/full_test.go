package objectstore_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/space"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
)

// disk is a disk of 8 GB, with a reserve of 256 MB.
type disk struct{ free atomic.Uint64 }

func (d *disk) space() *space.Space {
	d.free.Store(4 << 30)
	return space.New(func() (free, total uint64, err error) { return d.free.Load(), 8 << 30, nil }, slog.New(slog.DiscardHandler))
}

// fill leaves less than the reserve, and waits until the last reading is
// outdated.
func (d *disk) fill() {
	d.free.Store(10 << 20)
	time.Sleep(120 * time.Millisecond)
}

// requireFull requires the error of a full disk.
func requireFull(t *testing.T, err error, message string) {
	t.Helper()
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, errs.Unavailable, e.Code)
	assert.Contains(t, e.Message, message)
	assert.Positive(t, e.RetryAfter)
}

func TestFullDiskRefusesWrites(t *testing.T) {
	var d disk
	cfg := config(t.TempDir())
	cfg.Space = d.space()
	f := start(t, cfg)
	ctx, store := t.Context(), f.store
	for _, key := range []string{"org/a", "org/b"} {
		_, err := blob.PutBytes(ctx, store, key, []byte("kept"), blob.PutOptions{})
		require.NoError(t, err)
	}
	upload, err := store.CreateMultipart(ctx, "org/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/parts", upload, "part one")
	aborted, err := store.CreateMultipart(ctx, "org/aborted", "")
	require.NoError(t, err)

	d.fill()
	const why = "the disk of the data directory is nearly full: 10 MB are free and 256 MB are kept so"
	_, err = blob.PutBytes(ctx, store, "org/new", []byte("x"), blob.PutOptions{})
	requireFull(t, err, why)
	_, err = blob.PutBytes(ctx, store, "org/a", []byte("other"), blob.PutOptions{})
	requireFull(t, err, why)
	large := bytes.Repeat([]byte("large"), 2<<20)
	_, err = store.Put(ctx, "org/large", struct{ io.Reader }{bytes.NewReader(large)}, int64(len(large)), blob.PutOptions{})
	requireFull(t, err, why)
	requireFull(t, store.Copy(ctx, "org/a", "org/copy"), why)
	_, err = store.CreateMultipart(ctx, "org/upload", "")
	requireFull(t, err, why)
	_, err = store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
	requireFull(t, err, why)
	for name, body := range map[string][]byte{"small": []byte("x"), "large": large} {
		link, err := store.PresignPart(ctx, "org/parts", upload, 2, int64(len(body)), time.Minute)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(ctx, "PUT", link, bytes.NewReader(body))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err, name)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, 503, res.StatusCode)
		assert.Equal(t, "10", res.Header.Get("Retry-After"))
		assert.Contains(t, string(answer), "<Code>InsufficientStorage</Code><Message>"+why)
	}

	data, _, err := blob.GetBytes(ctx, store, "org/a", 100)
	require.NoError(t, err)
	assert.Equal(t, "kept", string(data))
	require.NoError(t, store.Delete(ctx, "org/b"))
	require.NoError(t, store.AbortMultipart(ctx, "org/aborted", aborted))
	objects, _, err := store.List(ctx, "org/", "", 0)
	require.NoError(t, err)
	require.Len(t, objects, 1, "%+v", objects)

	d.free.Store(4 << 30)
	_, err = store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
	require.NoError(t, err, "the refusal left the upload as it was")
}

// TestAdmissionUsesSizeOfWrite checks the number of bytes for which each
// operation is admitted.
func TestAdmissionUsesSizeOfWrite(t *testing.T) {
	var d disk
	cfg := config(t.TempDir())
	cfg.Space = d.space()
	f := start(t, cfg)
	ctx, store := t.Context(), f.store
	data := bytes.Repeat([]byte("8 bytes "), 1<<20)
	_, err := blob.PutBytes(ctx, store, "org/a", data, blob.PutOptions{})
	require.NoError(t, err)
	upload, err := store.CreateMultipart(ctx, "org/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/parts", upload, string(data))

	d.free.Store(260 << 20) // room for 4 MB
	time.Sleep(120 * time.Millisecond)
	_, err = blob.PutBytes(ctx, store, "org/small", data[:1<<20], blob.PutOptions{})
	require.NoError(t, err)
	_, err = blob.PutBytes(ctx, store, "org/large", data, blob.PutOptions{})
	requireFull(t, err, "nearly full")
	d.free.Store(390 << 20) // accepted again from 384 MB on
	_, err = blob.PutBytes(ctx, store, "org/small", data[:1<<20], blob.PutOptions{})
	require.NoError(t, err)
	for name, write := range map[string]func() error{
		"copy": func() error { return store.Copy(ctx, "org/a", "org/b") },
		"complete": func() error {
			_, err := store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
			return err
		},
	} {
		d.free.Store(260 << 20)
		time.Sleep(120 * time.Millisecond)
		requireFull(t, write(), "nearly full")
		d.free.Store(4 << 30)
		require.NoError(t, write(), name)
	}
	_, err = os.Stat(filepath.Join(f.dir, "objects", "buckets", bucket, "org", "large"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
