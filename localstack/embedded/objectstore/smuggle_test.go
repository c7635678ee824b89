package objectstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

// TestBodiesAreNotParsedAsRequests: the gateway refuses a request before it has
// read a body of unknown length, and takes the rest for another request, whose
// response no other client may get. Writes of other clients succeed meanwhile.
func TestBodiesAreNotParsedAsRequests(t *testing.T) {
	var log bytes.Buffer
	cfg := config(t.TempDir())
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	f := start(t, cfg)
	address := strings.TrimPrefix(f.server.Endpoint(), "http://")
	inner := strings.Repeat("GET /inner HTTP/1.1\r\nHost: x\r\n\r\n", 3)
	outer := fmt.Sprintf("PUT /%s/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", bucket, len(inner), inner)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				res, body := sendRaw(t, address, outer)
				if res != nil {
					assert.Equal(t, http.StatusForbidden, res.StatusCode)
					assert.NotContains(t, body, "inner")
				}
			}
		})
		all.Go(func() {
			for i := range 50 {
				key := fmt.Sprint("org/", i)
				_, err := blob.PutBytes(t.Context(), f.store, key, []byte("x"), blob.PutOptions{})
				assert.NoError(t, err)
				got, _, err := blob.GetBytes(t.Context(), f.store, key, 10)
				assert.NoError(t, err)
				assert.Equal(t, "x", string(got))
			}
		})
	}
	all.Wait()
	require.NoError(t, f.server.Close())
	assert.Empty(t, log.String())
}

// TestMalformedBodyIsClientError checks that it is rejected and not logged as a
// failure.
func TestMalformedBodyIsClientError(t *testing.T) {
	var log bytes.Buffer
	cfg := config(t.TempDir())
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	f := start(t, cfg)
	address := strings.TrimPrefix(f.server.Endpoint(), "http://")
	for name, body := range map[string]string{"no length": "x\r\nhello\r\n0\r\n\r\n", "no end of a chunk": "5\r\nhelloworld\r\n0\r\n\r\n", "negative": "-1\r\n"} {
		res, text := sendRaw(t, address, "PUT /"+bucket+"/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		require.NotNil(t, res, name)
		// The gateway may have rejected the credential before the body arrived.
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, res.StatusCode, "%s: %s", name, text)
	}
	require.NoError(t, f.server.Close())
	assert.Empty(t, log.String())
}

// sendRaw sends bytes on a new connection and reads one response, nil if there
// is none.
func sendRaw(t *testing.T, address, sent string) (*http.Response, string) {
	c, err := net.Dial("tcp", address)
	if !assert.NoError(t, err) {
		return nil, ""
	}
	defer c.Close()
	_, err = io.WriteString(c, sent)
	assert.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res, string(text)
}
