package objectstore_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/objectstore"
	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
	"millrace/shared/platform/blob"
)

func TestMain(m *testing.M) {
	proctest.Play(map[string]func(string) error{"serve": serve})
	os.Exit(m.Run())
}

// serve runs a server on a directory in a separate process.
func serve(dir string) error {
	server, err := objectstore.Start(context.Background(), config(dir))
	if err != nil {
		return err
	}
	if err := proc.Ready(os.Stdout, server.Endpoint()); err != nil {
		return err
	}
	select {}
}

func TestStartTwice(t *testing.T) {
	f := start(t, config(t.TempDir()))
	_, err := objectstore.Start(t.Context(), config(t.TempDir()))
	assert.ErrorIs(t, err, objectstore.ErrRunning)
	assert.NoError(t, f.store.Check(t.Context()), "the running one is unharmed")
}

func TestStartArguments(t *testing.T) {
	for _, spoil := range []func(*objectstore.Config){
		func(c *objectstore.Config) { c.Dir = "" },
		func(c *objectstore.Config) { c.Bucket = "" },
		func(c *objectstore.Config) { c.Bucket = "Not A Bucket" },
		func(c *objectstore.Config) { c.AccessKey = "" },
		func(c *objectstore.Config) { c.SecretKey = "" },
		func(c *objectstore.Config) { c.Listen = "nonsense" },
		func(c *objectstore.Config) { c.Listen = "192.0.2.1:0" }, // not an address of this machine
		func(c *objectstore.Config) { c.Dir = filepath.Join(os.Args[0], "below-a-file") },
	} {
		before, err := os.Getwd()
		require.NoError(t, err)
		cfg := config(t.TempDir())
		spoil(&cfg)
		_, err = objectstore.Start(t.Context(), cfg)
		require.Error(t, err, "%+v", cfg)
		assert.NotErrorIs(t, err, objectstore.ErrRunning, "a failed start leaves nothing running")
		after, err := os.Getwd()
		require.NoError(t, err)
		assert.Equal(t, before, after)
	}
}

func TestRestart(t *testing.T) {
	ctx := t.Context()
	t.Chdir(t.TempDir())
	cfg := config("relative") // resolved before the working directory changes
	f := start(t, cfg)
	_, err := blob.PutBytes(ctx, f.store, "org/kept", []byte("kept"), blob.PutOptions{ContentType: "text/plain"})
	require.NoError(t, err)
	id, err := f.store.CreateMultipart(ctx, "org/parts", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/parts", id, "part one")
	require.NoError(t, f.server.Close())
	require.NoError(t, f.server.Close(), "closing again")
	assert.DirExists(t, "relative", "the working directory is back")
	_, err = http.Get(f.server.Endpoint())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)

	f = start(t, cfg)
	data, obj, err := blob.GetBytes(ctx, f.store, "org/kept", 100)
	require.NoError(t, err)
	assert.Equal(t, "kept", string(data))
	assert.Equal(t, "text/plain", obj.ContentType)
	obj, err = f.store.CompleteMultipart(ctx, "org/parts", id, []blob.Part{part})
	require.NoError(t, err)
	assert.EqualValues(t, 8, obj.Size)
}

func TestFixedPort(t *testing.T) {
	cfg := config(t.TempDir())
	f := start(t, cfg)
	_, err := blob.PutBytes(t.Context(), f.store, "org/a", []byte("x"), blob.PutOptions{})
	require.NoError(t, err)
	link, err := f.store.PresignGet(t.Context(), "org/a", time.Minute, "")
	require.NoError(t, err)
	endpoint := f.server.Endpoint()
	require.NoError(t, f.server.Close())

	cfg.Listen = strings.TrimPrefix(endpoint, "http://")
	f = start(t, cfg)
	assert.Equal(t, endpoint, f.server.Endpoint())
	res, err := http.Get(link)
	require.NoError(t, err)
	res.Body.Close()
	assert.Equal(t, 200, res.StatusCode, "presigned URLs outlive a restart")
}

// TestKilled kills a server while objects are written and checks the
// acknowledged ones.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	server := proctest.Start(t, "serve", dir)
	endpoint, err := server.Await(t.Context())
	require.NoError(t, err)
	store := newStore(endpoint, secretKey)

	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	acknowledged := map[string]string{}
	enough := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key, content := fmt.Sprintf("org/%d/%d", w, i), strings.Repeat(fmt.Sprintf("%d-%d ", w, i), 5000)
				if _, err := blob.PutBytes(ctx, store, key, []byte(content), blob.PutOptions{}); err != nil {
					return
				}
				mu.Lock()
				if acknowledged[key] = content; len(acknowledged) == 60 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	server.Kill()
	cancel()
	writers.Wait()

	f := start(t, config(dir))
	assert.GreaterOrEqual(t, len(acknowledged), 60)
	for key, content := range acknowledged {
		data, obj, err := blob.GetBytes(t.Context(), f.store, key, 1<<20)
		require.NoError(t, err, key)
		assert.True(t, content == string(data), key)
		assert.NotEmpty(t, obj.ETag)
	}
	objects, _, err := f.store.List(t.Context(), "org/", "", 0)
	require.NoError(t, err)
	for _, o := range objects { // an unacknowledged object is complete or absent
		data, _, err := blob.GetBytes(t.Context(), f.store, o.Key, 1<<20)
		require.NoError(t, err)
		word, _, _ := strings.Cut(string(data), " ")
		assert.Equal(t, "org/"+strings.ReplaceAll(word, "-", "/"), o.Key)
		assert.True(t, strings.Repeat(word+" ", 5000) == string(data), o.Key)
	}
}
