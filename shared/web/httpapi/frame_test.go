package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/web/httpapi"
)

// traces stores objects, or fails with err if it is set.
type traces struct {
	blob.Store
	mu   sync.Mutex
	kept map[string][]byte
	err  error
}

func (s *traces) Put(ctx context.Context, key string, body io.Reader, _ int64, _ blob.PutOptions) (blob.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.err, blob.ValidateKey(key)); err != nil {
		return blob.Object{}, err
	}
	data, err := io.ReadAll(body)
	s.kept[key] = data
	return blob.Object{Key: key}, err
}

func request(tb testing.TB, method, target, as, body string) *http.Request {
	r := httptest.NewRequestWithContext(tb.Context(), method, target, strings.NewReader(body))
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	return r
}

func TestTrace(t *testing.T) {
	t.Parallel()
	store := &traces{kept: map[string][]byte{}}
	var log bytes.Buffer
	h := fixture(t, func(c *httpapi.Config) {
		c.Traces, c.Log = store, slog.New(slog.NewJSONHandler(&log, nil))
	}).Handler()

	r := request(t, "POST", "/fail/unwritable?q=1&api_key=zz9", "owner", `{"password":"in-the-body"}`)
	r.Header.Set("Cookie", "session=zz8")
	r.Header.Set("X-Custom", "kept")
	r.RemoteAddr = "192.0.2.7:4711"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, 500, w.Code)
	id := w.Header().Get("X-Request-Id")

	data := store.kept["_platform/exceptions/8227399232991/acme/"+id+".json"]
	require.NotEmpty(t, data)
	var trace httpapi.Trace
	require.NoError(t, json.Unmarshal(data, &trace))
	assert.Equal(t, "2026-03-04T05:06:07.008Z", trace.Timestamp)
	assert.Equal(t, id, trace.RequestID)
	assert.Equal(t, "failures", trace.FunctionName)
	assert.Equal(t, "*errors.errorString", trace.ExceptionType)
	assert.Contains(t, trace.ExceptionMessage, "the database at 10.0.0.1 is down")
	assert.Contains(t, trace.Traceback, "*errs.Error")
	assert.Equal(t, "POST", trace.HTTPMethod)
	assert.Equal(t, "/fail/unwritable", trace.HTTPPath)
	assert.Equal(t, "acme", trace.OrgID)
	assert.Equal(t, "192.0.2.7", trace.Event["source_ip"])
	assert.Equal(t, map[string]any{"X-Custom": "kept"}, trace.Event["headers"])
	assert.Equal(t, map[string]any{"q": "1", "api_key": "***"}, trace.Event["query"])
	for _, secret := range []string{"Bearer", "zz8", "zz9", "in-the-body"} {
		assert.NotContains(t, string(data), secret)
		assert.NotContains(t, log.String(), secret)
	}
	assert.NotContains(t, w.Body.String(), "10.0.0.1")
	assert.Contains(t, log.String(), "hunter2", "the cause is logged")

	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	for _, name := range []string{"timestamp", "request_id", "function_name", "exception_type", "exception_message", "traceback", "http_method", "http_path", "org_id", "event"} {
		assert.Contains(t, fields, name)
	}
}

func TestTraceOfPanicWithoutWorkspace(t *testing.T) {
	t.Parallel()
	store := &traces{kept: map[string][]byte{}}
	h := fixture(t, func(c *httpapi.Config) { c.Traces = store }).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, "POST", "/hooks/panic", "", ""))
	assert.Equal(t, 500, w.Code)
	data := string(store.kept["_platform/exceptions/8227399232991/-/"+w.Header().Get("X-Request-Id")+".json"])
	assert.Contains(t, data, `"http_path":"/hooks/{token}"`, "the token is a credential")
	assert.Contains(t, data, "fixture_test.go", "the stack leads to the handler")
	assert.Contains(t, data, `"exception_message":"hook"`)
}

func TestTraceIsStoredWhenClientDisconnects(t *testing.T) {
	t.Parallel()
	store := &traces{kept: map[string][]byte{}}
	h := fixture(t, func(c *httpapi.Config) { c.Traces = store }).Handler()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.ServeHTTP(httptest.NewRecorder(), request(t, "POST", "/fail/panic", "owner", "").WithContext(ctx))
	assert.Len(t, store.kept, 1)
}

func TestUnavailableTraceStoreIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := fixture(t, func(c *httpapi.Config) {
		c.Traces, c.Log = &traces{err: errors.New("bucket is gone")}, slog.New(slog.NewJSONHandler(&log, nil))
	}).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, "POST", "/fail/unknown", "owner", ""))
	assert.Equal(t, 500, w.Code)
	assert.JSONEq(t, `{"detail":"Internal server error"}`, w.Body.String())
	assert.Contains(t, log.String(), "bucket is gone")
}

func TestClientIP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, remote, forwarded string
		trust                   bool
		want                    string
	}{
		{"port", "192.0.2.1:80", "", false, "192.0.2.1"},
		{"no port", "192.0.2.1", "", false, "192.0.2.1"},
		{"v6", "[2001:db8::1]:80", "", false, "2001:db8::1"},
		{"v6 no port", "2001:db8::1", "", false, "2001:db8::1"},
		{"untrusted", "192.0.2.1:80", "203.0.113.9", false, "192.0.2.1"},
		{"last hop", "10.0.0.1:80", "1.2.3.4, 203.0.113.9", true, "203.0.113.9"},
		{"no address", "10.0.0.1:80", "evil\tvalue", true, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got tenant.Request
			a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler), TrustForwarded: test.trust})
			httpapi.Register(a, httpapi.Operation{ID: "ip", Method: "GET", Path: "/ip/{x}", Access: tenant.Public},
				func(ctx context.Context, _ *httpapi.None) (httpapi.None, error) {
					got = httpapi.RequestFrom(ctx)
					return httpapi.None{}, nil
				})
			r := request(t, "GET", "/ip/1", "", "")
			r.RemoteAddr = test.remote
			r.Header.Set("User-Agent", "agent")
			if test.forwarded != "" {
				r.Header.Set("X-Forwarded-For", test.forwarded)
			}
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, r)
			assert.Equal(t, 204, w.Code)
			assert.Equal(t, test.want, got.IP)
			assert.Equal(t, "/ip/{x}", got.Path)
			assert.Equal(t, "agent", got.UserAgent)
			assert.Equal(t, w.Header().Get("X-Request-Id"), got.ID)
			assert.WithinDuration(t, time.Now(), got.Start, time.Minute)
		})
	}
}

// deadlines records the deadlines set on the connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}

func TestLongResponsesHaveNoDeadline(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	fixture(t, nil).Handler().ServeHTTP(w, request(t, "POST", "/things", "owner", `{"name":"a"}`))
	assert.Equal(t, 201, w.Code)
	for _, at := range w.read {
		assert.True(t, at.IsZero(), "a deadline while the handler runs would cancel it")
	}
}

func TestStreamReachesClientInParts(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	proceed := make(chan struct{})
	part := strings.Repeat("x", 40<<10)
	httpapi.Register(a, httpapi.Operation{ID: "s", Method: "POST", Path: "/s", Access: tenant.Public},
		func(context.Context, *struct{ RawBody []byte }) (httpapi.Stream[httpapi.Items[string]], error) {
			return httpapi.List(func(yield func(string, error) bool) {
				if !yield(part, nil) {
					return
				}
				<-proceed
				yield("", errors.New("in the middle"))
			})
		})
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	resp, err := server.Client().Post(server.URL+"/s", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	defer resp.Body.Close()
	first := make([]byte, 10)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	assert.Equal(t, `{"items":[`, string(first), "before the list goes on")
	close(proceed)
	_, err = io.ReadAll(resp.Body)
	assert.Error(t, err, "a failure cuts the answer off")
}

func TestDisconnectedClientIsNoFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &traces{kept: map[string][]byte{}}
	a := httpapi.New(httpapi.Config{Traces: store, Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	httpapi.Register(a, httpapi.Operation{ID: "wait", Method: "GET", Path: "/wait", Access: tenant.Public},
		func(ctx context.Context, _ *httpapi.None) (httpapi.None, error) {
			<-ctx.Done()
			return httpapi.None{}, ctx.Err()
		})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.Handler().ServeHTTP(httptest.NewRecorder(), request(t, "GET", "/wait", "", "").WithContext(ctx))
	assert.Empty(t, store.kept)
	assert.Empty(t, log.String(), "a client that leaves is no failure of the service")
}

func TestRegisterRejectsInvalidOperations(t *testing.T) {
	t.Parallel()
	handler := func(context.Context, *httpapi.None) (httpapi.None, error) { return httpapi.None{}, nil }
	good := httpapi.Operation{ID: "a", Method: "GET", Path: "/a", Access: tenant.Public}
	for name, op := range map[string]httpapi.Operation{
		"no access": {ID: "b", Method: "GET", Path: "/b"},
		"no id":     {Method: "GET", Path: "/b", Access: tenant.Public},
		"no path":   {ID: "b", Method: "GET", Access: tenant.Public},
		"same id":   {ID: "a", Method: "GET", Path: "/b", Access: tenant.Public},
		"same path": {ID: "b", Method: "GET", Path: "/a", Access: tenant.Public},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := httpapi.New(httpapi.Config{})
			httpapi.Register(a, good, handler)
			assert.Panics(t, func() { httpapi.Register(a, op, handler) })
			assert.Len(t, a.Operations(), 1)
		})
	}
}

type hiddenPath struct {
	ID string `path:"id"`
}

func TestRegisterRejectsHiddenParameters(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{})
	op := httpapi.Operation{ID: "a", Method: "GET", Path: "/a/{id}", Access: tenant.Public}
	assert.Panics(t, func() {
		httpapi.Register(a, op, func(context.Context, *struct{ hiddenPath }) (httpapi.None, error) { return httpapi.None{}, nil })
	})
	assert.Empty(t, a.Operations())
}

func TestWithoutAuthenticatorEveryCallIsUnauthenticated(t *testing.T) {
	t.Parallel()
	h := fixture(t, func(c *httpapi.Config) { c.Authenticator = nil }).Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(t, "POST", "/session", "owner", ""))
	assert.Equal(t, 401, w.Code)
}
