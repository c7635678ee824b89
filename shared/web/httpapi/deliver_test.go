package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/web/httpapi"
)

// held is a log that waits until its lines may be written.
type held chan struct{}

func (h held) Write(p []byte) (int, error) {
	select {
	case <-h:
	case <-time.After(10 * time.Second): // fails the test below
	}
	return len(p), nil
}

// TestResponseIsSentBeforeItsLogLine: a client has the response while its line is
// still to be written.
func TestResponseIsSentBeforeItsLogLine(t *testing.T) {
	t.Parallel()
	lines := make(held)
	api := httpapi.New(httpapi.Config{Title: "Test", Log: slog.New(slog.NewTextHandler(lines, nil)), Clock: clock.System{}})
	op := func(id string) httpapi.Operation {
		return httpapi.Operation{ID: id, Method: "GET", Path: "/" + id, Function: "f", Access: tenant.Public}
	}
	httpapi.Register(api, op("plain"), func(context.Context, *httpapi.None) ([]int, error) { return []int{1}, nil })
	httpapi.Register(api, op("whole"), func(context.Context, *httpapi.None) (httpapi.Stream[[]int], error) {
		return httpapi.Whole([]int{1}), nil
	})
	server := httptest.NewServer(api.Handler())
	defer server.Close() // waits for the lines
	defer close(lines)
	server.Client().Transport.(*http.Transport).DisableKeepAlives = true
	for _, path := range []string{"/plain", "/whole"} {
		began := time.Now()
		res, err := server.Client().Get(server.URL + path)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, "[1]\n", string(data))
		assert.EqualValues(t, 4, res.ContentLength)
		assert.Less(t, time.Since(began), 10*time.Second)
	}
}
