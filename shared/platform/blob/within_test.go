package blob_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
)

func TestWithinWritesOnlyToItsFolders(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	memory := &blobtest.Memory{}
	store := blob.Within(memory, "runs", "messages")
	_, err := blob.PutBytes(ctx, store, "org/runs/1/log", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	_, err = blob.PutBytes(ctx, memory, "org/artifacts/1.zip", []byte("y"), blob.PutOptions{})
	require.NoError(t, err)

	for _, key := range []string{"org/artifacts/1.zip", "org/runs", "runs/x", "org/runs2/x", "org/x/runs/1"} {
		_, err = store.Put(ctx, key, strings.NewReader("x"), 1, blob.PutOptions{})
		require.ErrorIs(t, err, blob.ErrKey, key)
		require.ErrorIs(t, store.Delete(ctx, "org/runs/1/log", key), blob.ErrKey, key)
		require.ErrorIs(t, store.Copy(ctx, "org/runs/1/log", key), blob.ErrKey, key)
		_, err = store.PresignPut(ctx, key, time.Minute)
		require.ErrorIs(t, err, blob.ErrKey, key)
		_, err = store.CreateMultipart(ctx, key, "")
		require.ErrorIs(t, err, blob.ErrKey, key)
		_, err = store.PresignPart(ctx, key, "u", 1, 5, time.Minute)
		require.ErrorIs(t, err, blob.ErrKey, key)
		_, err = store.CompleteMultipart(ctx, key, "u", nil)
		require.ErrorIs(t, err, blob.ErrKey, key)
		require.ErrorIs(t, store.AbortMultipart(ctx, key, "u"), blob.ErrKey, key)
	}
	data, _, err := blob.GetBytes(ctx, store, "org/artifacts/1.zip", 10)
	require.NoError(t, err)
	assert.Equal(t, "y", string(data), "reads go anywhere, and nothing was written")
	require.NoError(t, store.Copy(ctx, "org/artifacts/1.zip", "org/messages/1"))
	require.NoError(t, store.Delete(ctx, "org/runs/1/log", "org/messages/1"))
}
