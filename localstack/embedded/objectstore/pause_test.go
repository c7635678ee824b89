package objectstore_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// begin runs work in the background and returns a channel with its error.
func begin(work func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	return done
}

func TestPauseDeletes(t *testing.T) {
	f := start(t, config(t.TempDir()))
	ctx, store := t.Context(), f.store
	put := func(key, content string) error {
		_, err := blob.PutBytes(ctx, store, key, []byte(content), blob.PutOptions{})
		return err
	}
	get := func(key string) string {
		data, _, err := blob.GetBytes(ctx, store, key, 100)
		require.NoError(t, err)
		return string(data)
	}
	for _, key := range []string{"org/deleted", "org/put", "org/streamed", "org/copy", "org/parts"} {
		require.NoError(t, put(key, "before"))
	}
	upload, err := store.CreateMultipart(ctx, "org/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/parts", upload, "after")
	slow, body := io.Pipe() // a slow overwrite in progress
	streamed := begin(func() error {
		_, err := store.Put(ctx, "org/streamed", slow, 5, blob.PutOptions{})
		return err
	})
	_, err = body.Write([]byte("aft"))
	require.NoError(t, err)

	resume, again := f.server.PauseDeletes(), f.server.PauseDeletes()
	waiting := map[string]<-chan error{
		"org/streamed": streamed,
		"org/deleted":  begin(func() error { return store.Delete(ctx, "org/deleted") }),
		"org/put":      begin(func() error { return put("org/put", "after") }),
		"org/copy":     begin(func() error { return store.Copy(ctx, "org/new", "org/copy") }),
		"org/parts": begin(func() error {
			_, err := store.CompleteMultipart(ctx, "org/parts", upload, []blob.Part{part})
			return err
		}),
	}
	require.NoError(t, put("org/new", "after"), "a new key")
	require.NoError(t, store.Copy(ctx, "org/new", "org/new-copy"))
	_, err = blob.PutBytes(ctx, store, "org/put", nil, blob.PutOptions{IfAbsent: true})
	require.ErrorIs(t, err, blob.ErrExists, "what replaces nothing is answered")
	go func() {
		_, _ = body.Write([]byte("er"))
		_ = body.Close()
	}()
	resume()
	resume()
	time.Sleep(200 * time.Millisecond)
	for key, done := range waiting {
		select {
		case err := <-done:
			t.Errorf("%s did not wait: %v", key, err)
		default:
		}
		assert.Equal(t, "before", get(key))
	}

	again()
	for key, done := range waiting {
		require.NoError(t, <-done, key)
	}
	for _, key := range []string{"org/put", "org/streamed", "org/copy", "org/parts"} {
		assert.Equal(t, "after", get(key), key)
	}
	_, err = store.Head(ctx, "org/deleted")
	assert.ErrorIs(t, err, blob.ErrNotFound)
	f.server.PauseDeletes()()
	require.NoError(t, store.Delete(ctx, "org/put"))
}

// TestCloseEndsWaitingForPause covers closing the server during a pause.
func TestCloseEndsWaitingForPause(t *testing.T) {
	f := start(t, config(t.TempDir()))
	_, err := blob.PutBytes(t.Context(), f.store, "org/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	f.server.PauseDeletes()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	deleted := begin(func() error { return f.store.Delete(ctx, "org/a") })
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	require.NoError(t, f.server.Close())
	assert.Less(t, time.Since(begun), 5*time.Second)
	assert.Error(t, <-deleted)
	assert.FileExists(t, f.dir+"/objects/buckets/"+bucket+"/org/a")
}
