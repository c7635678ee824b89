package server_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMetrics checks the metrics, which require the server's local secret.
func TestMetrics(t *testing.T) {
	_, me := serve(t, nil)
	get := func(path string, header ...string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, me.BaseURL+path, nil)
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(data)
	}
	code, _ := get("/flows", "Authorization", "Bearer "+me.APIKey)
	require.Equal(t, 200, code)
	code, _ = get("/flows")
	require.Equal(t, 401, code)
	answer := post(t, me.BaseURL+"/2015-03-31/functions/scheduler-tick/invocations", `{"event_type": "scheduler_tick"}`,
		"Authorization", "Bearer "+me.LocalSecret)
	require.Equal(t, 200, answer.status, answer.body)

	code, text := get("/_local/metrics", "Authorization", "Bearer "+me.LocalSecret)
	require.Equal(t, 200, code)
	for _, line := range []string{
		`millrace_requests_total{function="flows"} 2`,
		`millrace_errors_total{function="flows",code="unauthenticated"} 1`,
		`millrace_duration_seconds_count{function="flows"} 2`,
		`millrace_requests_total{function="scheduler-tick"} 1`,
		`millrace_tick_lag_seconds_count{function="scheduler-tick"} 1`,
	} {
		assert.Contains(t, text, line+"\n")
	}
	code, _ = get("/_local/metrics", "Authorization", "Bearer "+me.APIKey)
	assert.Equal(t, 401, code)
}
