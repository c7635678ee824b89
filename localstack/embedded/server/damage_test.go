package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/store"
)

// TestDamagedDatabase checks that a request that meets a damaged table gets an
// error, and that the server is unhealthy from then on; a server does not start
// if its database is missing. A process can run one server at a time, so the
// test is not parallel.
func TestDamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	var logged bytes.Buffer
	cfg := Config{Dir: dir, Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	serve := func(use func(send func(method, path, body string) (int, string))) {
		s, err := Open(t.Context(), cfg)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		use(func(method, path, body string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, s.Credentials().BaseURL+path, strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+s.Credentials().APIKey)
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			return res.StatusCode, string(answer)
		})
		stop()
		require.NoError(t, <-done)
	}
	const flows = 20
	mark := func(n int) string { return fmt.Sprintf("marked-%02d", n) }
	serve(func(send func(string, string, string) (int, string)) {
		for n := range flows { // in separate blocks
			expression := "'" + mark(n) + strings.Repeat("x", 3000) + "'"
			status, answer := send("POST", "/flows", fmt.Sprintf(
				`{"flow_name":"f%02d","flow_version":"1","flow_spec":{"tasks":[{"name":"t","type":"transform","config":{"expression":"%s"}}]}}`, n, expression))
			require.Equal(t, 200, status, answer)
		}
	})
	serve(func(func(string, string, string) (int, string)) {}) // moves the log into tables
	tables, err := filepath.Glob(filepath.Join(datadir.Store(dir), "*.sst"))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	data, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	at := map[int]int{} // position of a flow's specification
	for n := range flows {
		at[n] = bytes.Index(data, []byte(mark(n)))
		require.Positive(t, at[n])
	}
	order := slices.SortedFunc(maps.Keys(at), func(a, b int) int { return at[a] - at[b] })
	damaged, intact := order[flows/2], order[flows-1] // not adjacent to other kinds of items
	data[at[damaged]+20] ^= 0xff
	require.NoError(t, os.WriteFile(tables[0], data, 0o600))
	run := func(n int) string { return fmt.Sprintf(`{"flow_name":"f%02d","flow_version":"1"}`, n) }
	serve(func(send func(string, string, string) (int, string)) {
		_, answer := send("GET", "/health", "")
		assert.Contains(t, answer, `"status":"healthy"`, "nobody has met it")
		for range 2 {
			status, answer := send("POST", "/runs", run(damaged))
			assert.Equal(t, http.StatusServiceUnavailable, status, answer)
			assert.Contains(t, answer, "A part of the database is damaged")
		}
		status, answer := send("POST", "/runs", run(intact))
		assert.Equal(t, http.StatusOK, status, answer)
		require.Eventually(t, func() bool { // the answer before is valid for 5 s
			_, answer = send("GET", "/health", "")
			return strings.Contains(answer, `{"name":"key_value_table","status":"unhealthy"`)
		}, time.Minute, 100*time.Millisecond)
	})
	assert.Equal(t, 1, strings.Count(logged.String(), "a file is damaged"))

	require.NoError(t, os.RemoveAll(datadir.Store(dir)))
	_, err = Open(t.Context(), cfg)
	require.ErrorIs(t, err, store.ErrDamaged)
}
