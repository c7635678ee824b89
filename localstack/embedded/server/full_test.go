package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStartOnFullDiskFails checks for an immediate error with the reason.
func TestStartOnFullDiskFails(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), Config{
		Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		usage: func() (uint64, uint64, error) { return 100 << 10, 8 << 30, nil },
	})
	require.EqualError(t, err, "the disk of the data directory "+dir+" is full: 100 KB are free, and a start takes 1024 KB: make room there and start again")
}

// TestNearlyFullDisk checks that requests that need space are rejected with the
// reason, and that requests that finish work or free space succeed. A process
// can run one server at a time, so the test is not parallel.
func TestNearlyFullDisk(t *testing.T) {
	var free atomic.Uint64
	free.Store(4 << 30)
	s, err := Open(t.Context(), Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", NoTick: true, AllowLoopback: true, Log: slog.New(slog.DiscardHandler),
		usage: func() (uint64, uint64, error) { return free.Load(), 8 << 30, nil },
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	begun := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	send := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.Credentials().BaseURL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.Credentials().APIKey)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res, string(answer)
	}
	flow := `{"flow_name":"etl","flow_version":"1","flow_spec":{"tasks":[{"name":"hangs","type":"http","config":{"method":"GET","url":"` + hangs.URL + `"}}]}}`
	for _, body := range []string{flow, strings.Replace(flow, "etl", "old", 1)} {
		res, answer := send("POST", "/flows", body)
		require.Equal(t, 200, res.StatusCode, answer)
	}
	res, answer := send("POST", "/runs", `{"flow_name":"etl","flow_version":"1"}`)
	require.Equal(t, 200, res.StatusCode, answer)
	var run struct {
		RunID string `json:"run_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &run))
	<-begun

	free.Store(10 << 20)
	time.Sleep(120 * time.Millisecond) // a reading of the disk is valid for 100 ms
	for path, body := range map[string]string{"/flows": strings.Replace(flow, "etl", "new", 1), "/runs": `{"flow_name":"old","flow_version":"1"}`} {
		res, answer := send("POST", path, body)
		assert.Equal(t, 503, res.StatusCode, path)
		assert.Contains(t, answer, `{"detail":"the disk of the data directory is nearly full: 10 MB are free and 256 MB are kept so`)
		assert.Equal(t, "10", res.Header.Get("Retry-After"))
	}
	res, answer = send("GET", "/runs/"+run.RunID, "")
	assert.Equal(t, 200, res.StatusCode, answer)
	res, answer = send("DELETE", "/flows/old", "")
	assert.Less(t, res.StatusCode, 300, answer)
	res, answer = send("POST", "/runs/"+run.RunID+"/cancel", "")
	assert.Equal(t, 200, res.StatusCode, answer)

	res, answer = send("GET", "/health", "")
	assert.Equal(t, 200, res.StatusCode)
	assert.Contains(t, answer, `"status":"unhealthy","version"`)
	for _, name := range []string{"key_value_table", "object_store"} {
		assert.Contains(t, answer, `{"name":"`+name+`","status":"unhealthy","message":"the disk of the data directory is nearly full: 10 MB are free`)
	}

	free.Store(4 << 30)
	require.Eventually(t, func() bool {
		_, answer := send("GET", "/runs/"+run.RunID, "")
		return strings.Contains(answer, `"status":"CANCELLED"`)
	}, time.Minute, 50*time.Millisecond)
}
