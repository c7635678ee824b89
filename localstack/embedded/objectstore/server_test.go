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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/blob/s3"
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

// fixture is a running server. A process can have only one, so tests that start
// one are not parallel; subtests of TestServer share theirs.
type fixture struct {
	dir    string
	server *objectstore.Server
	store  *s3.Store
	events *recorder
}

func start(tb testing.TB, cfg objectstore.Config) *fixture {
	tb.Helper()
	f := &fixture{dir: cfg.Dir, events: &recorder{}}
	cfg.OnEvent = f.events.add
	cfg.Wants = func(_, _, key string) bool { return !strings.HasPrefix(key, "org/unwanted/") }
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
	link, err := f.store.PresignPart(t.Context(), key, id, 1, int64(len(content)), time.Minute)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "PUT", link, strings.NewReader(content))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	return blob.Part{Number: 1, ETag: res.Header.Get("ETag")}
}

// TestServer runs all tests with metadata in extended attributes (if the file
// system has them) and in sidecars.
func TestServer(t *testing.T) {
	for _, metadata := range []string{"attributes", "sidecar"} {
		t.Run(metadata, func(t *testing.T) {
			dir := t.TempDir()
			if metadata == "sidecar" { // a directory with sidecars keeps them
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
				"ListensOnLoopback": testListensOnLoopback, "OnEvent": testOnEvent,
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

func testOnEvent(t *testing.T, f *fixture) {
	ctx, store := t.Context(), f.store
	put, err := blob.PutBytes(ctx, store, "org/events/a b%ü", []byte("12345"), blob.PutOptions{})
	require.NoError(t, err)
	_, err = store.Put(ctx, "org/events/streamed", struct{ *strings.Reader }{strings.NewReader("123")}, 3, blob.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, store.Copy(ctx, put.Key, "org/events/copy"))
	id, err := store.CreateMultipart(ctx, "org/events/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/events/parts", id, "one part")
	whole, err := store.CompleteMultipart(ctx, "org/events/parts", id, []blob.Part{part})
	require.NoError(t, err)
	_, err = blob.PutBytes(ctx, store, put.Key, nil, blob.PutOptions{IfAbsent: true})
	require.ErrorIs(t, err, blob.ErrExists, "a refused put is no event")
	client := aws3.New(aws3.Options{
		Region: objectstore.Region, BaseEndpoint: aws.String(f.server.Endpoint()), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err = client.DeleteObject(ctx, &aws3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String("org/events/copy")})
	require.NoError(t, err)
	require.NoError(t, store.Delete(ctx, put.Key, "org/events/parts"), "many at once")

	streamed, err := store.Head(ctx, "org/events/streamed")
	require.NoError(t, err)
	assert.Equal(t, []string{
		fmt.Sprintf("ObjectCreated:Put %s %s 5 %s", bucket, put.Key, put.ETag),
		fmt.Sprintf("ObjectCreated:Put %s org/events/streamed 3 %s", bucket, streamed.ETag),
		fmt.Sprintf("ObjectCreated:Copy %s org/events/copy 5 %s", bucket, put.ETag),
		fmt.Sprintf("ObjectCreated:CompleteMultipartUpload %s org/events/parts 8 %s", bucket, whole.ETag),
		fmt.Sprintf("ObjectRemoved:Delete %s org/events/copy 0 ", bucket),
		fmt.Sprintf("ObjectRemoved:Delete %s %s 0 ", bucket, put.Key),
		fmt.Sprintf("ObjectRemoved:Delete %s org/events/parts 0 ", bucket),
	}, f.events.under("org/events/"))
	_, err = blob.PutBytes(ctx, store, "org/unwanted/a", nil, blob.PutOptions{})
	require.NoError(t, err)
	require.NoError(t, store.Delete(ctx, "org/unwanted/a"))
	assert.Empty(t, f.events.under("org/unwanted/"))
}

// recorder collects OnEvent calls.
type recorder struct {
	mu    sync.Mutex
	calls []events.Object
}

func (r *recorder) add(o events.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, o)
}

// under returns the events of keys with a prefix, ordered by their sequencers.
func (r *recorder) under(prefix string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []string
	var last events.Object
	for _, o := range r.calls {
		if !strings.HasPrefix(o.Key, prefix) {
			continue
		}
		if !o.After(last) || o.Time.Before(last.Time) {
			calls = append(calls, "out of order:")
		}
		last = o
		calls = append(calls, fmt.Sprintf("%s %s %s %d %s", o.Event, o.Bucket, o.Key, o.Size, o.ETag))
	}
	return calls
}
