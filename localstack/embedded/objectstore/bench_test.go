package objectstore_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
)

func BenchmarkStart(b *testing.B) {
	cfg := config(b.TempDir())
	for b.Loop() {
		server, err := objectstore.Start(b.Context(), cfg)
		require.NoError(b, err)
		b.StopTimer()
		require.NoError(b, server.Close())
		b.StartTimer()
	}
}

func BenchmarkPutSmall(b *testing.B) {
	f := start(b, config(b.TempDir()))
	data := bytes.Repeat([]byte("4 KB"), 1024)
	for i := 0; b.Loop(); i++ {
		_, err := blob.PutBytes(b.Context(), f.store, fmt.Sprintf("org/bench/%d", i), data, blob.PutOptions{})
		require.NoError(b, err)
	}
}

// BenchmarkPutSynced puts 1 KB with and without syncing, into one directory and
// into a new one each time.
func BenchmarkPutSynced(b *testing.B) {
	data := bytes.Repeat([]byte("1 KB"), 256)
	for _, sync := range []bool{false, true} {
		for name, key := range map[string]string{"known": "org/bench/%d", "new": "org/bench/%d/a/b/c"} {
			b.Run(fmt.Sprintf("sync=%t/%s", sync, name), func(b *testing.B) {
				cfg := config(b.TempDir())
				cfg.FullSync = sync
				f := start(b, cfg)
				for i := 0; b.Loop(); i++ {
					_, err := blob.PutBytes(b.Context(), f.store, fmt.Sprintf(key, i), data, blob.PutOptions{})
					require.NoError(b, err)
				}
			})
		}
	}
}

func BenchmarkGetSmall(b *testing.B) {
	f := start(b, config(b.TempDir()))
	_, err := blob.PutBytes(b.Context(), f.store, "org/a", bytes.Repeat([]byte("4 KB"), 1024), blob.PutOptions{})
	require.NoError(b, err)
	for b.Loop() {
		_, _, err := blob.GetBytes(b.Context(), f.store, "org/a", 1<<20)
		require.NoError(b, err)
	}
}

// BenchmarkMultipart uploads 100 MB in parts of 10 MB by presigned URLs.
func BenchmarkMultipart(b *testing.B) {
	const size, partSize = 100 << 20, 10 << 20
	f := start(b, config(b.TempDir()))
	part := make([]byte, partSize)
	b.SetBytes(size)
	for b.Loop() {
		id, err := f.store.CreateMultipart(b.Context(), "org/large", "")
		require.NoError(b, err)
		var parts []blob.Part
		for n := 1; n <= size/partSize; n++ {
			link, err := f.store.PresignPart(b.Context(), "org/large", id, n, partSize, time.Minute)
			require.NoError(b, err)
			req, err := http.NewRequestWithContext(b.Context(), "PUT", link, bytes.NewReader(part))
			require.NoError(b, err)
			res, err := http.DefaultClient.Do(req)
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			parts = append(parts, blob.Part{Number: n, ETag: res.Header.Get("ETag")})
		}
		_, err = f.store.CompleteMultipart(b.Context(), "org/large", id, parts)
		require.NoError(b, err)
	}
}
