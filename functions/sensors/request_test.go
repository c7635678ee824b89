package sensors

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
	"millrace/shared/kit/outbound/outboundtest"
)

func TestPollsRefuseForbiddenAddresses(t *testing.T) {
	t.Parallel()
	outboundtest.Refuses(t, "url leads to an address that sensors may not reach: ask", func(t *testing.T, c *http.Client, url string) string {
		got := (&service{client: c, help: "ask"}).ask(t.Context(), &Config{URL: &url}, time.Minute)
		assert.Equal(t, got.matches, got.reason == "")
		assert.Equal(t, !got.matches, got.failed)
		return got.reason
	})
}

// TestAsk checks what becomes of each kind of response.
func TestAsk(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	answer := func(path, kind string, status int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	const isJSON = "application/json; charset=utf-8"
	answer("/ok", isJSON, 200, `{"ok":true}`)
	answer("/no", isJSON, 200, `{"ok":false}`)
	answer("/text", "text/plain", 200, "up")
	answer("/empty", isJSON, 204, "")
	answer("/broken", isJSON, 200, `{"ok":true`)
	answer("/problem", "application/problem+json", 200, `{"ok":true}}`)
	answer("/down", isJSON, 503, `{"ok":true}`)
	answer("/full", "text/plain", 200, `"`+strings.Repeat("x", maxResponse-2)+`"`)
	answer("/large", "text/plain", 200, `"`+strings.Repeat("x", maxResponse-1)+`"`)
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	gone := httptest.NewServer(nil)
	gone.Close()

	service := &service{client: outboundtest.Client(t, outbound.Policy{Loopback: true})}
	for _, c := range []struct {
		url    string
		status int64
		path   string
		want   response
	}{
		{"/ok", 0, "", response{status: 200, matches: true}},
		{"/ok", 0, "ok", response{status: 200, matches: true}},
		{"/ok", 200, "ok", response{status: 200, matches: true}},
		{"/no", 0, "ok", response{status: 200, reason: "ok is false, null, zero or empty"}},
		{"/text", 0, "", response{status: 200, matches: true}},
		{"/text", 0, "ok", response{status: 200, reason: "the response is not valid JSON", failed: true}},
		{"/empty", 0, "", response{status: 204, matches: true}},
		{"/empty", 204, "", response{status: 204, matches: true}},
		{"/empty", 0, "ok", response{status: 204, reason: "the response is not valid JSON", failed: true}},
		{"/broken", 0, "", response{status: 200, reason: "the response is not valid JSON", failed: true}},
		{"/broken", 0, "ok", response{status: 200, reason: "the response is not valid JSON", failed: true}},
		{"/problem", 0, "", response{status: 200, reason: "the response is not valid JSON", failed: true}},
		{"/down", 0, "ok", response{status: 503, reason: "the response has the status 503"}},
		{"/down", 503, "ok", response{status: 503, matches: true}},
		{"/ok", 404, "ok", response{status: 200, reason: "the response has the status 200"}},
		{"/full", 0, "", response{status: 200, matches: true}},
		{"/full", 0, "x", response{status: 200, reason: "x is not in the response"}},
		{"/large", 0, "", response{status: 200, matches: true}},
		{"/large", 0, "x", response{status: 200, reason: "the response has more than 1048576 bytes", failed: true}},
		{"/moved", 0, "ok", response{status: 200, matches: true}},
		{"/moved", 302, "", response{status: 302, matches: true}},
		{"/cut", 0, "ok", response{status: 200, reason: "the request failed: unexpected EOF", failed: true}},
		{gone.URL + "/?key=private", 0, "", response{reason: "the request failed: dial: connect: connection refused", failed: true}},
	} {
		t.Run(fmt.Sprint(c.url, c.status, c.path), func(t *testing.T) {
			t.Parallel()
			config := Config{URL: &c.url, JSONPath: &c.path}
			if strings.HasPrefix(c.url, "/") {
				config.URL = new(s.URL + c.url)
			}
			if c.status != 0 {
				config.ExpectedStatus = &c.status
			}
			assert.Equal(t, c.want, service.ask(t.Context(), &config, time.Minute))
		})
	}
}

// slow is a server that does not answer, or whose response does not end.
type slow struct{ answers bool }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.answers {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	read, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: 200, Body: read, Request: r}, nil
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server  slow
		seconds *int64
		most    time.Duration
		want    time.Duration
	}{
		{slow{}, nil, maxTimeout, 10 * time.Second},
		{slow{}, new(int64(30)), maxTimeout, 30 * time.Second},
		{slow{}, new(int64(30)), maxTestTimeout, 20 * time.Second},
		{slow{}, new(int64(1)), maxTimeout, time.Second},
		{slow{answers: true}, new(int64(5)), maxTimeout, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			config := Config{URL: new("http://a.test"), JSONPath: new("ok"), TimeoutSeconds: c.seconds}
			got := (&service{client: &http.Client{Transport: c.server}}).ask(t.Context(), &config, c.most)
			assert.Equal(t, c.want, time.Since(began))
			want := response{reason: fmt.Sprintf("there was no complete response within %d seconds", int(c.want.Seconds())), failed: true}
			if c.server.answers {
				want.status = 200
			}
			assert.Equal(t, want, got)
		})
	}
}

// TestRequest: the headers are sent, but not to another host, no cookie is kept,
// and no credential of the URL is told.
func TestRequest(t *testing.T) {
	t.Parallel()
	var got []*http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "private", Path: "/"})
		if r.URL.Path == "/away" {
			http.Redirect(w, r, strings.Replace(r.Header.Get("X-To"), "127.0.0.1", "b.test", 1), http.StatusFound)
		}
	}))
	defer s.Close()
	policy := outbound.Policy{Loopback: true, Resolver: outboundtest.Resolver(outboundtest.Names{"b.test": {"127.0.0.1"}}.Lookup)}
	service := &service{client: outboundtest.Client(t, policy)}
	config := Config{URL: new(s.URL + "/away"), Headers: map[string]string{"x-key": "private", "X-To": s.URL + "/there", "User-Agent": "ours", "host": "virtual.test"}}
	for range 2 {
		assert.True(t, service.ask(t.Context(), &config, time.Minute).matches)
	}
	require.Len(t, got, 4)
	assert.Equal(t, "private", got[2].Header.Get("X-Key"))
	assert.Equal(t, "ours", got[2].Header.Get("User-Agent"))
	assert.Equal(t, "virtual.test", got[2].Host)
	assert.Empty(t, got[2].Header.Get("Cookie"))
	assert.Empty(t, got[3].Header.Get("X-Key"))
	assert.Equal(t, "/there", got[3].URL.Path)

	config = Config{URL: new("http://user:private@none.test/?key=private")}
	assert.Equal(t, response{reason: "the request failed: lookup none.test: no such host", failed: true}, service.ask(t.Context(), &config, time.Minute))
}
