package localtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/localstack/embedded/objectstore"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/ids"
)

const bucket = "artifacts"

// shared is the object store of the test process, which can have only one. It
// runs while any Env uses it. Envs are separated by their workspaces' ids, with
// which all keys begin.
var shared struct {
	mu     sync.Mutex
	users  int
	server *objectstore.Server
	store  blob.Store
	dir    string
}

// acquire returns the object store and starts it for its first user.
func acquire() (blob.Store, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users > 0 {
		shared.users++
		return shared.store, nil
	}
	dir, err := os.MkdirTemp("", "localtest-objects-")
	if err != nil {
		return nil, err
	}
	cfg := objectstore.Config{
		Dir: filepath.Clean(dir), AccessKey: "localtest", SecretKey: ids.Token(24), Bucket: bucket,
	}
	server, err := objectstore.Start(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("start object store: %w", err)
	}
	shared.users, shared.server, shared.dir = 1, server, dir
	shared.store = s3.New(s3.Config{
		Bucket: bucket, Region: objectstore.Region, Endpoint: server.Endpoint(),
		AccessKey: cfg.AccessKey, SecretKey: cfg.SecretKey, PathStyle: true,
	})
	return shared.store, nil
}

// release releases the object store; the last user stops it.
func release() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	if err := shared.server.Close(); err != nil {
		return err
	}
	return os.RemoveAll(shared.dir)
}

// objects is the object store of one Env, started on first use. From then until
// the Env ends, the process's working directory is the store's.
type objects struct{ open func() (blob.Store, error) }

var _ blob.Store = objects{}

func newObjects(t testing.TB) objects {
	var started atomic.Bool
	t.Cleanup(func() {
		if !started.Load() {
			return
		}
		if err := release(); err != nil {
			t.Errorf("end object store: %v", err)
		}
	})
	return objects{sync.OnceValues(func() (blob.Store, error) {
		s, err := acquire()
		started.Store(err == nil)
		return s, err
	})}
}

func (o objects) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	s, err := o.open()
	if err != nil {
		return blob.Object{}, err
	}
	return s.Put(ctx, key, body, size, opts)
}

func (o objects) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	s, err := o.open()
	if err != nil {
		return nil, blob.Object{}, err
	}
	return s.Get(ctx, key, rng)
}

func (o objects) Head(ctx context.Context, key string) (blob.Object, error) {
	s, err := o.open()
	if err != nil {
		return blob.Object{}, err
	}
	return s.Head(ctx, key)
}

func (o objects) Delete(ctx context.Context, keys ...string) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	return s.Delete(ctx, keys...)
}

func (o objects) List(ctx context.Context, prefix, after string, limit int) ([]blob.Object, string, error) {
	s, err := o.open()
	if err != nil {
		return nil, "", err
	}
	return s.List(ctx, prefix, after, limit)
}

func (o objects) Copy(ctx context.Context, from, to string) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	return s.Copy(ctx, from, to)
}

func (o objects) PresignGet(ctx context.Context, key string, ttl time.Duration, filename string) (string, error) {
	s, err := o.open()
	if err != nil {
		return "", err
	}
	return s.PresignGet(ctx, key, ttl, filename)
}

func (o objects) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	s, err := o.open()
	if err != nil {
		return "", err
	}
	return s.PresignPut(ctx, key, ttl)
}

func (o objects) CreateMultipart(ctx context.Context, key, contentType string) (string, error) {
	s, err := o.open()
	if err != nil {
		return "", err
	}
	return s.CreateMultipart(ctx, key, contentType)
}

func (o objects) PresignPart(ctx context.Context, key, uploadID string, part int, size int64, ttl time.Duration) (string, error) {
	s, err := o.open()
	if err != nil {
		return "", err
	}
	return s.PresignPart(ctx, key, uploadID, part, size, ttl)
}

func (o objects) CompleteMultipart(ctx context.Context, key, uploadID string, parts []blob.Part) (blob.Object, error) {
	s, err := o.open()
	if err != nil {
		return blob.Object{}, err
	}
	return s.CompleteMultipart(ctx, key, uploadID, parts)
}

func (o objects) AbortMultipart(ctx context.Context, key, uploadID string) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	return s.AbortMultipart(ctx, key, uploadID)
}

func (o objects) Check(ctx context.Context) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	return s.Check(ctx)
}
