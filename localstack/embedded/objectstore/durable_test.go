package objectstore_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
)

// syncs records what is synced, and fails with err.
type syncs struct {
	mu    sync.Mutex
	paths []string
	err   error
}

func (s *syncs) sync(f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := f.Name()
	if strings.HasPrefix(path, "/proc/") || strings.Contains(path, ".sgwtmp") && !strings.Contains(path, "multipart") {
		path = "staged"
	}
	s.paths = append(s.paths, path)
	return s.err
}

// since returns what work synced below a directory, in order.
func (s *syncs) since(root string, work func()) []string {
	s.mu.Lock()
	s.paths = nil
	s.mu.Unlock()
	work()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, path := range s.paths {
		if below, err := filepath.Rel(root, path); err == nil {
			s.paths[i] = filepath.ToSlash(below)
		}
	}
	return s.paths
}

func TestFullSync(t *testing.T) {
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			cfg := config(t.TempDir())
			cfg.FullSync = true
			if metadata == "sidecar" {
				require.NoError(t, os.MkdirAll(filepath.Join(cfg.Dir, "objects", "sidecar"), 0o700))
			}
			var s syncs
			t.Cleanup(objectstore.OnSync(s.sync))
			f := start(t, cfg)
			root := filepath.Join(cfg.Dir, "objects")
			assert.Contains(t, s.paths, filepath.Join(root, "buckets"), "the bucket's name")
			ctx, store := t.Context(), f.store
			known := false // whether the directory is durable
			check := func(key string, work func()) {
				t.Helper()
				got := s.since(root, work)
				want := []string{"buckets/" + bucket + "/" + key, "buckets/" + bucket + "/org/sync"}
				if !known {
					want = append(want, "buckets/"+bucket+"/org", "buckets/"+bucket)
				}
				if metadata == "sidecar" {
					meta := "sidecar/" + bucket + "/" + key + "/meta"
					want = append([]string{meta, "sidecar/" + bucket + "/" + key, "sidecar/" + bucket + "/org/sync", "sidecar/" + bucket + "/org", "sidecar/" + bucket}, want...)
					assert.Contains(t, got, meta+"/etag")
					assert.Contains(t, got, meta+"/content-type")
				}
				require.GreaterOrEqual(t, len(got), len(want), "%v", got)
				assert.Equal(t, "staged", got[0], "before it has its name")
				assert.Equal(t, want, got[len(got)-len(want):])
			}
			check("org/sync/put", func() {
				_, err := blob.PutBytes(ctx, store, "org/sync/put", []byte("x"), blob.PutOptions{ContentType: "text/plain"})
				require.NoError(t, err)
			})
			known = true
			check("org/sync/copy", func() { require.NoError(t, store.Copy(ctx, "org/sync/put", "org/sync/copy")) })
			var upload string
			begun := s.since(root, func() {
				var err error
				upload, err = store.CreateMultipart(ctx, "org/sync/parts", "")
				require.NoError(t, err)
			})
			assert.True(t, slices.ContainsFunc(begun, func(path string) bool {
				return strings.HasPrefix(path, "buckets/") && strings.HasSuffix(path, "/"+upload)
			}), "%v", begun)
			var part blob.Part
			sent := s.since(root, func() { part = f.sendPart(t, "org/sync/parts", upload, "part one") })
			assert.True(t, slices.ContainsFunc(sent, func(path string) bool {
				return strings.HasPrefix(path, "buckets/") && strings.HasSuffix(path, upload+"/1")
			}), "%v", sent)
			check("org/sync/parts", func() {
				_, err := store.CompleteMultipart(ctx, "org/sync/parts", upload, []blob.Part{part})
				require.NoError(t, err)
			})
			assert.Empty(t, s.since(root, func() { require.NoError(t, store.Delete(ctx, "org/sync/copy")) }))
			known = false
			check("org/sync/copy", func() { require.NoError(t, store.Copy(ctx, "org/sync/put", "org/sync/copy")) })

			s.err = errors.New("the disk is broken")
			link, err := store.PresignPut(ctx, "org/sync/put", time.Minute)
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(ctx, "PUT", link, strings.NewReader("other"))
			require.NoError(t, err)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			res.Body.Close()
			assert.Equal(t, 500, res.StatusCode, "nothing is acknowledged that is not on the disk")
			s.err = nil
			data, _, err := blob.GetBytes(ctx, store, "org/sync/put", 10)
			require.NoError(t, err)
			assert.Equal(t, "x", string(data), "the object keeps its content")
		})
	}
}

func TestNoSyncByDefault(t *testing.T) {
	var s syncs
	t.Cleanup(objectstore.OnSync(s.sync))
	f := start(t, config(t.TempDir()))
	_, err := blob.PutBytes(t.Context(), f.store, "org/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	assert.Empty(t, s.paths)
}
