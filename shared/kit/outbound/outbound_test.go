package outbound

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forbidden are addresses that users must not reach.
var forbidden = []string{
	"127.0.0.1", "127.1.2.3", "127.255.255.255", "0.0.0.0", "0.1.2.3",
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200",
	"169.254.169.254", "169.254.170.2", "169.254.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
	"224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::127.0.0.1", "::7f00:1",
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001::1", "2001:0:7f00:1::",
	"fe80::1", "fe80::1%25lo", "fec0::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "2001:db8::1", "100::1", "0:0:0:0:0:0:0:1",
}

func host(addr string) string {
	if strings.Contains(addr, ":") {
		return "[" + addr + "]"
	}
	return addr
}

func client(t *testing.T, p Policy, names map[string][]string) *http.Client {
	t.Helper()
	c, err := newClient(p, resolver(names))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
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

func TestForbiddenLiterals(t *testing.T) {
	t.Parallel()
	c := client(t, Policy{}, nil)
	for _, addr := range forbidden {
		for _, port := range []string{"", ":80", ":9001"} {
			_, err := get(t, c, "http://"+host(addr)+port+"/")
			assert.True(t, Denied(err), "%s%s: %v", addr, port, err)
		}
	}
}

func TestForbiddenNames(t *testing.T) {
	t.Parallel()
	names := map[string][]string{"both.test": {"127.0.0.1", "::1", "10.0.0.1"}}
	for _, addr := range forbidden {
		if ip, err := netip.ParseAddr(addr); err == nil && ip.Zone() == "" { // DNS has no zones
			names["n"+strings.NewReplacer(":", "-", ".", "-").Replace(ip.StringExpanded())+".test"] = []string{addr}
		}
	}
	c := client(t, Policy{}, names)
	for name := range names {
		_, err := get(t, c, "http://"+name+":8080/")
		assert.True(t, Denied(err), "%s: %v", name, err)
	}
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
	c := client(t, Policy{}, names)
	for _, name := range odd {
		_, err := get(t, c, "http://"+name+":"+port+"/")
		assert.Error(t, err, name)
	}
	assert.Zero(t, hits.Load())
	_, err = get(t, client(t, Policy{Loopback: true}, names), "http://0x7f000001:"+port+"/")
	require.NoError(t, err, "the test's resolver is asked")
	assert.EqualValues(t, 1, hits.Load())
}

func TestForbiddenByRedirect(t *testing.T) {
	t.Parallel()
	to := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer s.Close()
	c := client(t, Policy{Ranges: []string{"127.0.0.1/32"}}, map[string][]string{"inner.test": {"10.1.2.3"}})
	for _, to = range []string{
		"http://169.254.169.254/latest/meta-data/", "http://127.0.0.2:1/", "http://[::1]:80/", "http://[::ffff:10.0.0.1]/",
		"http://inner.test/", "//10.0.0.1/", "ftp://10.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/",
	} {
		_, err := get(t, c, s.URL)
		assert.True(t, Denied(err), "%s: %v", to, err)
	}
}

// TestPublicAddresses checks, by the attempted connections, that all other
// addresses are allowed.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	c := client(t, Policy{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, addr := range []string{"93.184.216.34", "[2606:2800:220:1::1]"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
		require.NoError(t, err)
		_, err = c.Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		assert.False(t, Denied(err), addr)
	}
	assert.False(t, Denied(nil))
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer s.Close()
	mapped := strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	for name, test := range map[string]struct {
		policy Policy
		url    string
		ok     bool
	}{
		"loopback":              {Policy{Loopback: true}, s.URL, true},
		"loopback, mapped":      {Policy{Loopback: true}, mapped, true},
		"range":                 {Policy{Ranges: []string{"10.0.0.0/8", "127.0.0.0/8"}}, s.URL, true},
		"range not in its form": {Policy{Ranges: []string{"127.9.9.9/8"}}, s.URL, true},
		"range, mapped":         {Policy{Ranges: []string{"::ffff:127.0.0.0/104"}}, s.URL, true},
		"other range":           {Policy{Ranges: []string{"127.0.0.2/32", "::/0"}}, s.URL, false},
		"nothing":               {Policy{}, s.URL, false},
		"loopback alone":        {Policy{Loopback: true}, "http://10.0.0.1/", false},
		"loopback, any address": {Policy{Loopback: true}, "http://0.0.0.0/", false},
	} {
		body, err := get(t, client(t, test.policy, nil), test.url)
		if test.ok {
			assert.NoError(t, err, name)
			assert.Equal(t, "hello", body, name)
			continue
		}
		assert.True(t, Denied(err), "%s: %v", name, err)
	}
}

func TestBadRange(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "host/8", "fe80::1%eth0/64"} {
		_, err := NewClient(Policy{Ranges: []string{"10.0.0.0/8", r}})
		assert.ErrorContains(t, err, "outbound: invalid range", r)
	}
}

// TestNoProxy inspects the transport, because net/http reads the environment's
// proxy only once.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	c, err := NewClient(Policy{})
	require.NoError(t, err)
	transport, ok := c.Transport.(*http.Transport)
	require.True(t, ok)
	assert.Nil(t, transport.Proxy)
	assert.Nil(t, c.Jar)
}
