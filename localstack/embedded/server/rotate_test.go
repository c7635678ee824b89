package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
)

// TestKeysAreRotated: what was signed before one rotation is accepted, and what
// was sealed before any stays readable.
func TestKeysAreRotated(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, server.RotateKeys(dir, "1.2.3"), "no server has used")
	send := func(c signin.Credentials, method, path, body string) answer {
		t.Helper()
		if method == http.MethodPost {
			return post(t, c.BaseURL+path, body, "Authorization", "Bearer "+c.APIKey, "Content-Type", "application/json")
		}
		req, err := http.NewRequestWithContext(t.Context(), method, c.BaseURL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return answer{res.StatusCode, res.Header, string(data)}
	}
	with := func(use func(signin.Credentials)) {
		t.Helper()
		s, err := server.Open(t.Context(), server.Config{
			Dir: dir, Listen: "127.0.0.1:0", Version: "1.2.3", NoTick: true, Log: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		use(s.Credentials())
	}
	var next string
	page := func(c signin.Credentials) answer {
		return send(c, "GET", "/flows?limit=1&next_token="+url.QueryEscape(next), "")
	}
	value := func(c signin.Credentials) string { return send(c, "GET", "/secrets/token/value", "").body }
	with(func(c signin.Credentials) {
		for i := range 2 {
			flow := fmt.Sprintf(`{"flow_name":"f%d","flow_version":"1","flow_spec":{"tasks":[{"name":"a","type":"wait","config":{"seconds":1}}]}}`, i)
			require.Less(t, send(c, "POST", "/flows", flow).status, 300)
		}
		require.Less(t, send(c, "POST", "/secrets", `{"name":"token","value":"sealed before"}`).status, 300)
		var first struct {
			Next string `json:"next_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(page(c).body), &first))
		require.NotEmpty(t, first.Next)
		next = first.Next
		require.ErrorIs(t, server.RotateKeys(dir, "1.2.3"), server.ErrInUse)
	})
	made := func(c signin.Credentials) time.Time {
		c.APIKey = c.LocalSecret
		answer := send(c, "GET", server.StatePath, "")
		require.Equal(t, 200, answer.status, answer.body)
		var state server.State
		require.NoError(t, json.Unmarshal([]byte(answer.body), &state))
		assert.Equal(t, dir, state.Dir)
		return state.KeysMadeAt
	}
	var first time.Time
	with(func(c signin.Credentials) {
		assert.Equal(t, 401, send(c, "GET", server.StatePath, "").status, "it takes the local secret")
		first = made(c)
		assert.WithinDuration(t, time.Now(), first, time.Minute)
	})
	require.NoError(t, server.RotateKeys(dir, "1.2.3"))
	with(func(c signin.Credentials) {
		assert.Equal(t, 200, page(c).status, "signed before the rotation")
		assert.Contains(t, value(c), "sealed before")
		assert.True(t, made(c).After(first))
	})
	require.NoError(t, server.RotateKeys(dir, "1.2.3"))
	with(func(c signin.Credentials) {
		assert.Equal(t, 400, page(c).status, "two rotations later")
		assert.Contains(t, value(c), "sealed before")
	})
}
