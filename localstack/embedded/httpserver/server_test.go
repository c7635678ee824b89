package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// short are time-outs that a test can wait for.
var short = times{
	header: 300 * time.Millisecond, idle: 300 * time.Millisecond, read: 300 * time.Millisecond, write: 300 * time.Millisecond,
	quiet: 20 * time.Millisecond, stalled: 20 * time.Millisecond,
}

// serve runs a server until the test ends and returns its address.
func serve(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	s := New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

// send writes raw bytes of a request.
func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// closed waits until the server has closed a connection, and returns how long
// it took.
func closed(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	_, err := io.Copy(io.Discard, c)
	var slow net.Error
	require.False(t, errors.As(err, &slow) && slow.Timeout(), "the connection is still open")
	return time.Since(begin)
}

func TestSlowClientsAreClosed(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 2)
	address := serve(t, Config{times: short, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reads":
			_, err := io.Copy(io.Discard, r.Body)
			assert.True(t, TooSlow(r))
			failed <- err
		case "/writes":
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			failed <- err
		}
	})})
	for name, text := range map[string]string{
		"nothing":           "",
		"half a header":     "GET / HTTP/1.1\r\nHost:",
		"no second request": get,
		"half a second":     get + "GET /",
		"body not read":     "POST /ignored HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, address)
			send(t, c, text)
			assert.Less(t, closed(t, c), 5*time.Second)
		})
	}
	t.Run("body", func(t *testing.T) {
		t.Parallel()
		c := dial(t, address)
		send(t, c, "POST /reads HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
		assert.Less(t, closed(t, c), 5*time.Second)
	})
	t.Run("answer", func(t *testing.T) {
		t.Parallel()
		c := dial(t, address)
		send(t, c, "GET /writes HTTP/1.1\r\nHost: x\r\n\r\n")
	})
	t.Cleanup(func() {
		for range 2 {
			select {
			case err := <-failed:
				assert.Error(t, err)
			case <-time.After(5 * time.Second):
				assert.Fail(t, "a handler waits for its client")
			}
		}
	})
}

// TestClientsThatProgressAreNotClosed covers a body that trickles, a response
// that pauses and a client that reads slowly.
func TestClientsThatProgressAreNotClosed(t *testing.T) {
	t.Parallel()
	address := serve(t, Config{times: short, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		for range 5 {
			select {
			case <-r.Context().Done(): // a stale deadline would end it
				return
			case <-time.After(150 * time.Millisecond):
			}
			fmt.Fprint(w, " ")
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, n)
	})})
	c := dial(t, address)
	const pieces = 10
	for round := range 2 { // the second uses a connection that had deadlines
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces*readLeast)
		for range pieces {
			send(t, c, strings.Repeat("x", readLeast))
			time.Sleep(80 * time.Millisecond)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, round)
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err, round)
		assert.Equal(t, fmt.Sprintf("     %d", pieces*readLeast), string(answer))
	}
}

// TestHalfOpenConnectionsMakeRoom checks that requests are answered, however
// many connections without a request others keep.
func TestHalfOpenConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	address := serve(t, Config{Connections: 20, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })})
	for range 60 {
		c := dial(t, address)
		send(t, c, "GET / HTTP/1.1\r\n")
	}
	for range 30 {
		c := dial(t, address)
		send(t, c, get)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		assert.Equal(t, 200, res.StatusCode)
	}
}

// TestBusyServerRefusesConnections checks for the 503 if all connections are
// busy.
func TestBusyServerRefusesConnections(t *testing.T) {
	t.Parallel()
	working, finish := make(chan struct{}), make(chan struct{})
	address := serve(t, Config{Connections: 3, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		working <- struct{}{}
		<-finish
	})})
	for range 3 {
		send(t, dial(t, address), get)
		<-working
	}
	c := dial(t, address)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	assert.Equal(t, 503, res.StatusCode)
	assert.Equal(t, "1", res.Header.Get("Retry-After"))
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"detail":"The server has too many connections at work"}`, string(body))
	close(finish)
}

// TestShutdownWaitsForRequestsOnly, not for connections without one.
func TestShutdownWaitsForRequestsOnly(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	s := New(Config{Log: slog.New(slog.DiscardHandler), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		fmt.Fprint(w, "done")
	})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(context.Background(), l) }()
	silent, asks := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	send(t, asks, get)
	<-begun
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	closed(t, silent)
	close(finish)
	res, err := http.ReadResponse(bufio.NewReader(asks), nil)
	require.NoError(t, err)
	assert.Equal(t, 200, res.StatusCode)
	begin := time.Now()
	require.NoError(t, <-down)
	assert.Less(t, time.Since(begin), 3*time.Second)
}

// TestResponseToRefusedBodyIsReadable: a client that is still sending can read
// it.
func TestResponseToRefusedBodyIsReadable(t *testing.T) {
	t.Parallel()
	address := serve(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})})
	client := &http.Client{Transport: &http.Transport{}}
	for range 20 {
		res, err := client.Post("http://"+address, "text/plain", strings.NewReader(strings.Repeat("x", 6<<20)))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, 413, res.StatusCode)
	}
}
