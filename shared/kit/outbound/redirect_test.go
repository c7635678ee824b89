package outbound_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
)

// hop is one request of a redirect chain, as its server received it.
type hop struct {
	host string
	http.Header
	body string
}

// follow makes a call that is redirected along the hosts and then answered, and
// returns the requests.
func follow(t *testing.T, status int, hosts ...string) []hop {
	t.Helper()
	var hops []hop
	var port string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hops = append(hops, hop{r.Host, r.Header.Clone(), string(body)})
		if n := len(hops); n < len(hosts) {
			http.Redirect(w, r, "http://"+hosts[n]+":"+port+"/"+strconv.Itoa(n)+"?token=hop", status)
		}
	}))
	defer s.Close()
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	names := map[string][]string{}
	for _, h := range hosts {
		names[strings.ToLower(h)] = []string{"127.0.0.1"}
	}
	c := client(t, outbound.Policy{Loopback: true}, names)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+hosts[0]+":"+port+"/?token=first", strings.NewReader("payload"))
	require.NoError(t, err)
	for _, name := range private {
		req.Header.Set(name, "private")
	}
	req.Header.Set("Accept", "text/plain")
	req.Header.Set("User-Agent", "test")
	res, err := c.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Len(t, hops, len(hosts))
	return hops
}

var private = []string{"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Www-Authenticate", "Private-Token", "X-Amz-Security-Token"}

func TestRedirectsDropHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hosts []string
		bare  []bool // by hop: nothing private was received
	}{
		"same host":       {[]string{"a.test", "a.test"}, []bool{false, false}},
		"other host":      {[]string{"a.test", "b.test"}, []bool{false, true}},
		"subdomain":       {[]string{"a.test", "x.a.test"}, []bool{false, true}},
		"and back":        {[]string{"a.test", "b.test", "a.test"}, []bool{false, true, true}},
		"and on at home":  {[]string{"a.test", "b.test", "a.test", "a.test"}, []bool{false, true, true, true}},
		"on at the other": {[]string{"a.test", "a.test", "b.test", "b.test"}, []bool{false, false, true, true}},
	} {
		for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
			for i, hop := range follow(t, status, test.hosts...) {
				assert.Equal(t, "text/plain", hop.Get("Accept"), "%s, hop %d", name, i)
				assert.Equal(t, "test", hop.Get("User-Agent"), "%s, hop %d", name, i)
				for _, h := range private {
					if test.bare[i] {
						assert.Empty(t, hop.Values(h), "%s, hop %d, %s", name, i, h)
					} else {
						assert.Equal(t, "private", hop.Get(h), "%s, hop %d, %s", name, i, h)
					}
				}
				if test.bare[i] {
					assert.Empty(t, hop.Values("Referer"), "%s, hop %d", name, i)
				}
				if status == http.StatusTemporaryRedirect {
					assert.Equal(t, "payload", hop.body)
				} else if i > 0 {
					assert.Empty(t, hop.body)
				}
			}
		}
	}
}

func TestRedirectCount(t *testing.T) {
	t.Parallel()
	hosts := make([]string, outbound.MaxRedirects+1)
	for i := range hosts {
		hosts[i] = "a.test"
	}
	assert.Len(t, follow(t, http.StatusFound, hosts...), outbound.MaxRedirects+1)

	hits := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		http.Redirect(w, r, "/", http.StatusFound)
	}))
	defer s.Close()
	_, err := get(t, client(t, outbound.Policy{Loopback: true}, nil), s.URL)
	assert.ErrorContains(t, err, "stopped after 10 redirects")
	assert.Equal(t, outbound.MaxRedirects+1, hits)
}
