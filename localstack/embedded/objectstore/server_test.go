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

// The process can have one server, so all tests share it.
var (
	server  *objectstore.Server
	dataDir string
	created recorder
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "objectstore-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dataDir = dir
	if server, err = objectstore.Start(context.Background(), config(dir)); err != nil {
		panic(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			panic(err)
		}
	}()
	return m.Run()
}

func config(dir string) objectstore.Config {
	return objectstore.Config{
		Dir: dir, AccessKey: accessKey, SecretKey: secretKey, Bucket: bucket, OnCreated: created.add,
	}
}

func newStore(secret string) *s3.Store {
	return s3.New(s3.Config{
		Bucket: bucket, Endpoint: server.Endpoint(), AccessKey: accessKey, SecretKey: secret, PathStyle: true,
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	blobtest.Exercise(t, func(*testing.T) blob.Store { return newStore(secretKey) })
}

func TestStartTwice(t *testing.T) {
	t.Parallel()
	_, err := objectstore.Start(t.Context(), config(t.TempDir()))
	assert.ErrorIs(t, err, objectstore.ErrRunning)
	assert.NoError(t, newStore(secretKey).Check(t.Context()), "the running one is unharmed")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	wrong := newStore("not the secret")
	_, err := blob.PutBytes(t.Context(), wrong, "org/credentials", []byte("x"), blob.PutOptions{})
	require.Error(t, err)
	assert.ErrorContains(t, err, "403")
	assert.Error(t, wrong.Check(t.Context()))
	_, err = newStore(secretKey).Head(t.Context(), "org/credentials")
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	_, err := blob.PutBytes(t.Context(), newStore(secretKey), "org/anonymous/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	for _, tt := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/" + bucket}, {"GET", "/" + bucket + "/org/anonymous/a"}, {"PUT", "/" + bucket + "/org/anonymous/b"},
		{"DELETE", "/" + bucket + "/org/anonymous/a"}, {"PUT", "/another-bucket"}, {"POST", "/" + bucket + "/org/anonymous/a?uploads"},
		{"GET", "/" + bucket + "/../../../etc/passwd"}, {"PATCH", "/create-user"}, {"PATCH", "/list-users"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.Endpoint()+tt.path, strings.NewReader(""))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		assert.GreaterOrEqual(t, res.StatusCode, 400, "%+v", tt)
		if strings.HasPrefix(tt.path, "/"+bucket) && !strings.Contains(tt.path, "..") {
			assert.Equal(t, 403, res.StatusCode, "%+v", tt)
		}
	}
	_, err = newStore(secretKey).Head(t.Context(), "org/anonymous/a")
	assert.NoError(t, err)
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	_, err := blob.PutBytes(t.Context(), newStore(secretKey), "org/private/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dataDir, "objects", "buckets", bucket, "org", "private", "a"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dataDir, "objects"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestListensOnLoopback(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(server.Endpoint())
	require.NoError(t, err)
	assert.Equal(t, "http", u.Scheme)
	assert.True(t, net.ParseIP(u.Hostname()).IsLoopback())
	assert.NotEqual(t, "0", u.Port())
}

func TestStartArguments(t *testing.T) {
	t.Parallel()
	for _, clear := range []func(*objectstore.Config){
		func(c *objectstore.Config) { c.Dir = "" },
		func(c *objectstore.Config) { c.Bucket = "" },
		func(c *objectstore.Config) { c.AccessKey = "" },
		func(c *objectstore.Config) { c.SecretKey = "" },
	} {
		cfg := config(t.TempDir())
		clear(&cfg)
		_, err := objectstore.Start(t.Context(), cfg)
		assert.ErrorContains(t, err, "required")
	}
}

func TestOnCreated(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), newStore(secretKey)
	put, err := blob.PutBytes(ctx, store, "org/created/a b%ü", []byte("12345"), blob.PutOptions{})
	require.NoError(t, err)
	_, err = store.Put(ctx, "org/created/streamed", struct{ *strings.Reader }{strings.NewReader("123")}, 3, blob.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, store.Copy(ctx, put.Key, "org/created/copy"))
	id, err := store.CreateMultipart(ctx, "org/created/parts", "")
	require.NoError(t, err)
	link, err := store.PresignPart(ctx, "org/created/parts", id, 1, time.Minute)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, "PUT", link, strings.NewReader("one part"))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	whole, err := store.CompleteMultipart(ctx, "org/created/parts", id, []blob.Part{{Number: 1, ETag: res.Header.Get("ETag")}})
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
	}, created.under("org/created/"))
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
