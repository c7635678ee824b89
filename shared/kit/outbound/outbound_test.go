package outbound_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
	"millrace/shared/kit/outbound/outboundtest"
)

func client(t *testing.T, p outbound.Policy, names outboundtest.Names) *http.Client {
	t.Helper()
	p.Resolver = outboundtest.Resolver(names.Lookup)
	return outboundtest.Client(t, p)
}

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	outboundtest.Refuses(t, "denied", func(t *testing.T, c *http.Client, url string) string {
		_, err := get(t, c, url)
		if outbound.Denied(err) {
			return "denied: " + outbound.Cause(err)
		}
		return ""
	})
}

// TestOddSpellings covers hosts that some resolvers parse as addresses.
func TestOddSpellings(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	odd := []string{
		"2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "127.0.0.1.", "0",
		"localhost", "localhost.", "LOCALHOST", "①②⑦.⓪.⓪.①", "127。0。0。1",
	}
	names := map[string][]string{} // resolved as by a resolver that parses all of them
	for _, name := range odd {
		names[strings.ToLower(strings.TrimSuffix(name, "."))] = []string{"127.0.0.1"}
	}
	c := client(t, outbound.Policy{}, names)
	for _, name := range odd {
		_, err := get(t, c, "http://"+name+":"+port+"/")
		assert.Error(t, err, name)
	}
	assert.Zero(t, hits.Load())
	_, err = get(t, client(t, outbound.Policy{Loopback: true}, names), "http://0x7f000001:"+port+"/")
	require.NoError(t, err, "the test's resolver is asked")
	assert.EqualValues(t, 1, hits.Load())
}

// TestPublicAddresses checks, by the attempted connections, that all other
// addresses are allowed.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	c := client(t, outbound.Policy{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, addr := range []string{"93.184.216.34", "[2606:2800:220:1::1]"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
		require.NoError(t, err)
		_, err = c.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		assert.False(t, outbound.Denied(err), addr)
	}
	assert.False(t, outbound.Denied(nil))
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer s.Close()
	mapped := strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	for name, test := range map[string]struct {
		policy outbound.Policy
		url    string
		ok     bool
	}{
		"loopback":              {outbound.Policy{Loopback: true}, s.URL, true},
		"loopback, mapped":      {outbound.Policy{Loopback: true}, mapped, true},
		"range":                 {outbound.Policy{Ranges: []string{"10.0.0.0/8", "127.0.0.0/8"}}, s.URL, true},
		"range not in its form": {outbound.Policy{Ranges: []string{"127.9.9.9/8"}}, s.URL, true},
		"range, mapped":         {outbound.Policy{Ranges: []string{"::ffff:127.0.0.0/104"}}, s.URL, true},
		"other range":           {outbound.Policy{Ranges: []string{"127.0.0.2/32", "::/0"}}, s.URL, false},
		"nothing":               {outbound.Policy{}, s.URL, false},
		"loopback alone":        {outbound.Policy{Loopback: true}, "http://10.0.0.1/", false},
		"loopback, any address": {outbound.Policy{Loopback: true}, "http://0.0.0.0/", false},
	} {
		body, err := get(t, client(t, test.policy, nil), test.url)
		if test.ok {
			assert.NoError(t, err, name)
			assert.Equal(t, "hello", body, name)
			continue
		}
		assert.True(t, outbound.Denied(err), "%s: %v", name, err)
	}
}

func TestBadRange(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "host/8", "fe80::1%eth0/64"} {
		_, err := outbound.NewClient(outbound.Policy{Ranges: []string{"10.0.0.0/8", r}})
		assert.ErrorContains(t, err, "outbound: invalid range", r)
	}
}

// TestNoProxy inspects the transport, because net/http reads the environment's
// proxy only once.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	c, err := outbound.NewClient(outbound.Policy{})
	require.NoError(t, err)
	transport, ok := c.Transport.(*http.Transport)
	require.True(t, ok)
	assert.Nil(t, transport.Proxy)
	assert.Nil(t, c.Jar)
}
