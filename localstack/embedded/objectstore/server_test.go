package objectstore_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/blob"
	"millrace/shared/blob/blobtest"
	"millrace/shared/blob/s3"
)

const (
	bucket    = "millrace-test"
	accessKey = "test-access"
	secretKey = "test-secret-of-some-length"
)

func config(dir string) objectstore.Config {
	return objectstore.Config{Dir: dir, AccessKey: accessKey, SecretKey: secretKey, Bucket: bucket}
}

func newStore(endpoint, secret string) *s3.Store {
	return s3.New(s3.Config{Bucket: bucket, Endpoint: endpoint, AccessKey: accessKey, SecretKey: secret, PathStyle: true})
}

// fixture is a running server. As a process can have one, tests that start one
// are not parallel; those below TestServer share theirs.
type fixture struct {
	dir     string
	server  *objectstore.Server
	store   *s3.Store
	created *recorder
}

func start(tb testing.TB, cfg objectstore.Config) *fixture {
	tb.Helper()
	f := &fixture{dir: cfg.Dir, created: &recorder{}}
	cfg.OnCreated = f.created.add
	var err error
	f.server, err = objectstore.Start(context.Background(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, f.server.Close()) })
	f.store = newStore(f.server.Endpoint(), secretKey)
	return f
}

// sendPart uploads part 1 by a presigned URL.
func (f *fixture) sendPart(t *testing.T, key, id, content string) blob.Part {
	t.Helper()
	link, err := f.store.PresignPart(t.Context(), key, id, 1, time.Minute)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", link, strings.NewReader(content))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	return blob.Part{Number: 1, ETag: res.Header.Get("ETag")}
}

// TestServer runs everything with metadata in extended attributes (where the
// file system has them) and in sidecars.
func TestServer(t *testing.T) {
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			dir := t.TempDir()
			if metadata == "sidecar" { // a directory that has them keeps them
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "objects", "sidecar"), 0o700))
			}
			f := start(t, config(dir))
			if metadata == "sidecar" {
				require.DirExists(t, filepath.Join(dir, "objects", "sidecar", bucket, "meta"))
			}
			t.Run("Conformance", func(t *testing.T) {
				t.Parallel()
				blobtest.Exercise(t, func(*testing.T) blob.Store { return f.store })
			})
			for name, test := range map[string]func(*testing.T, *fixture){
				"Credentials": testCredentials, "Anonymous": testAnonymous, "FilesArePrivate": testFilesArePrivate,
				"ListensOnLoopback": testListensOnLoopback, "OnCreated": testOnCreated,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, f)
				})
			}
		})
	}
}

func testCredentials(t *testing.T, f *fixture) {
	wrong := newStore(f.server.Endpoint(), "not the secret")
	_, err := blob.PutBytes(t.Context(), wrong, "org/credentials", []byte("x"), blob.PutOptions{})
	require.Error(t, err)
	assert.ErrorContains(t, err, "403")
	assert.Error(t, wrong.Check(t.Context()))
	_, err = f.store.Head(t.Context(), "org/credentials")
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func testAnonymous(t *testing.T, f *fixture) {
	_, err := blob.PutBytes(t.Context(), f.store, "org/anonymous/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	for _, tt := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/" + bucket}, {"GET", "/" + bucket + "/org/anonymous/a"}, {"PUT", "/" + bucket + "/org/anonymous/b"},
		{"DELETE", "/" + bucket + "/org/anonymous/a"}, {"PUT", "/another-bucket"}, {"POST", "/" + bucket + "/org/anonymous/a?uploads"},
		{"GET", "/" + bucket + "/../../../etc/passwd"}, {"PATCH", "/create-user"}, {"PATCH", "/list-users"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, f.server.Endpoint()+tt.path, strings.NewReader(""))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		assert.GreaterOrEqual(t, res.StatusCode, 400, "%+v", tt)
		if strings.HasPrefix(tt.path, "/"+bucket) && !strings.Contains(tt.path, "..") {
			assert.Equal(t, 403, res.StatusCode, "%+v", tt)
		}
	}
	_, err = f.store.Head(t.Context(), "org/anonymous/a")
	assert.NoError(t, err)
}

func testFilesArePrivate(t *testing.T, f *fixture) {
	_, err := blob.PutBytes(t.Context(), f.store, "org/private/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(f.dir, "objects", "buckets", bucket, "org", "private", "a"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(f.dir, "objects"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func testListensOnLoopback(t *testing.T, f *fixture) {
	u, err := url.Parse(f.server.Endpoint())
	require.NoError(t, err)
	assert.Equal(t, "http", u.Scheme)
	assert.True(t, net.ParseIP(u.Hostname()).IsLoopback())
	assert.NotEqual(t, "0", u.Port())
}

func testOnCreated(t *testing.T, f *fixture) {
	ctx, store := t.Context(), f.store
	put, err := blob.PutBytes(ctx, store, "org/created/a b%ü", []byte("12345"), blob.PutOptions{})
	require.NoError(t, err)
	_, err = store.Put(ctx, "org/created/streamed", struct{ *strings.Reader }{strings.NewReader("123")}, 3, blob.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, store.Copy(ctx, put.Key, "org/created/copy"))
	id, err := store.CreateMultipart(ctx, "org/created/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/created/parts", id, "one part")
	whole, err := store.CompleteMultipart(ctx, "org/created/parts", id, []blob.Part{part})
	require.NoError(t, err)
	_, err = blob.PutBytes(ctx, store, put.Key, nil, blob.PutOptions{IfAbsent: true})
	require.ErrorIs(t, err, blob.ErrExists, "a refused put is no event")
	require.NoError(t, store.Delete(ctx, "org/created/copy"))

	streamed, err := store.Head(ctx, "org/created/streamed")
	require.NoError(t, err)
	assert.Equal(t, []string{
		fmt.Sprintf("%s %s 5 %s", bucket, put.Key, put.ETag),
		fmt.Sprintf("%s org/created/streamed 3 %s", bucket, streamed.ETag),
		fmt.Sprintf("%s org/created/copy 5 %s", bucket, put.ETag),
		fmt.Sprintf("%s org/created/parts 8 %s", bucket, whole.ETag),
	}, f.created.under("org/created/"))
}

// recorder collects OnCreated calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) add(bucket, key string, size int64, etag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("%s %s %d %s", bucket, key, size, etag))
}

func (r *recorder) under(prefix string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []string
	for _, call := range r.calls {
		if strings.HasPrefix(call, bucket+" "+prefix) {
			calls = append(calls, call)
		}
	}
	return calls
}
