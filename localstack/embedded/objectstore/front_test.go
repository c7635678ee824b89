package objectstore_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// TestHalfOpenConnectionsDoNotBlockOthers uses unauthenticated requests that
// never arrive whole.
func TestHalfOpenConnectionsDoNotBlockOthers(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Connections, cfg.Log = 20, slog.New(slog.DiscardHandler)
	f := start(t, cfg)
	address := strings.TrimPrefix(f.server.Endpoint(), "http://")
	for range 60 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\n")
		require.NoError(t, err)
	}
	id, err := f.store.CreateMultipart(t.Context(), "org/open/a", "")
	require.NoError(t, err)
	part := f.sendPart(t, "org/open/a", id, "a part")
	_, err = f.store.CompleteMultipart(t.Context(), "org/open/a", id, []blob.Part{part})
	require.NoError(t, err)
	got, _, err := blob.GetBytes(t.Context(), f.store, "org/open/a", 100)
	require.NoError(t, err)
	assert.Equal(t, "a part", string(got))
}

// TestRequestsAreForwardedUnchanged: signatures cover path and query to the
// byte.
func TestRequestsAreForwardedUnchanged(t *testing.T) {
	f := start(t, config(t.TempDir()))
	for _, key := range []string{"org/a b", "org/a+b", "org/ü/%41", "org/a;b=c&d?e#f", "org/~!'()*", "org/{x}[y]|z"} {
		_, err := blob.PutBytes(t.Context(), f.store, key, []byte(key), blob.PutOptions{ContentType: "text/x; a=b"})
		require.NoError(t, err, key)
		link, err := f.store.PresignGet(t.Context(), key, time.Minute, `na;me "x".txt`)
		require.NoError(t, err)
		res, err := http.Get(link)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 200, res.StatusCode, key)
		assert.Equal(t, key, string(data))
		assert.Equal(t, "text/x; a=b", res.Header.Get("Content-Type"))
	}
}

// TestOversizedBodyIsRejectedEarly: the client of a URL for ten bytes gets the
// response before it has sent much.
func TestOversizedBodyIsRejectedEarly(t *testing.T) {
	f := start(t, config(t.TempDir()))
	id, err := f.store.CreateMultipart(t.Context(), "org/long", "")
	require.NoError(t, err)
	link, err := f.store.PresignPart(t.Context(), "org/long", id, 1, 10, time.Minute)
	require.NoError(t, err)
	for range 20 { // the response races with the end of the connection
		sent := &counter{left: 400 << 20}
		req, err := http.NewRequestWithContext(t.Context(), "PUT", link, sent)
		require.NoError(t, err)
		req.ContentLength = sent.left
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 403, res.StatusCode)
		assert.Greater(t, sent.left, int64(300<<20))
	}
}

// counter is a body of left bytes.
type counter struct{ left int64 }

func (c *counter) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.left)
	c.left -= n
	return int(n), nil
}

// TestGatewaySocketIsPrivateAndTemporary, even if its path would be too long.
func TestGatewaySocketIsPrivateAndTemporary(t *testing.T) {
	for name, length := range map[string]int{"short": 1, "long": 120} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), strings.Repeat("d", length))
			f := start(t, config(dir))
			path := filepath.Join(dir, "objects.sock")
			info, err := os.Stat(path)
			if name == "short" {
				require.NoError(t, err)
				assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			} else {
				assert.ErrorIs(t, err, os.ErrNotExist)
			}
			_, err = blob.PutBytes(t.Context(), f.store, "org/a", []byte("x"), blob.PutOptions{})
			require.NoError(t, err)
			require.NoError(t, f.server.Close())
			assert.NoFileExists(t, path)
		})
	}
}

// TestFailuresAreLogged with operation and key, and not written to stderr.
func TestFailuresAreLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := config(t.TempDir())
	cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	f := start(t, cfg)
	path := filepath.Join(cfg.Dir, "objects", "buckets", bucket, "org")
	require.NoError(t, os.MkdirAll(path, 0o700))
	require.NoError(t, os.Symlink("loop", filepath.Join(path, "loop")))
	for range 2 {
		link, err := f.store.PresignGet(t.Context(), "org/loop", time.Minute, "")
		require.NoError(t, err)
		res, err := http.Get(link)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 500, res.StatusCode)
	}
	require.NoError(t, f.server.Close())
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2, log.String())
	assert.Contains(t, lines[0], `"level":"ERROR"`)
	assert.Contains(t, lines[0], "too many levels of symbolic links")
	assert.Contains(t, lines[0], `"key":"org/loop"`)
}
