// Package outboundtest checks that a feature that calls URLs of users reaches
// no forbidden address: by literal, name, redirect or rebinding.
package outboundtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
)

// Forbidden are addresses that users must not reach: this machine, private and
// link-local networks, metadata services, and IPv6 forms of them.
var Forbidden = []string{
	"127.0.0.1", "127.1.2.3", "127.255.255.255", "0.0.0.0", "0.1.2.3",
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200",
	"169.254.169.254", "169.254.170.2", "169.254.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
	"224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::127.0.0.1", "::7f00:1",
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001::1", "2001:0:7f00:1::",
	"fe80::1", "fe80::1%25lo", "fec0::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "2001:db8::1", "100::1", "0:0:0:0:0:0:0:1",
}

// Call makes one call of the feature and returns the message of its failure,
// the empty string if it received an answer.
type Call func(t *testing.T, client *http.Client, url string) (failure string)

// Refuses checks that calls to forbidden addresses fail with a message that
// contains says. Answers of the test's servers are {} with status 200.
func Refuses(t *testing.T, says string, call Call) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, string, Call){
		"literals": literals, "names": names, "redirects": redirects, "rebinding": rebinding,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, says, call)
		})
	}
}

func literals(t *testing.T, says string, call Call) {
	c := Client(t, outbound.Policy{})
	for _, addr := range Forbidden {
		for _, port := range []string{"", ":80", ":9001"} {
			assert.Contains(t, call(t, c, "http://"+host(addr)+port+"/"), says, addr+port)
		}
	}
}

func names(t *testing.T, says string, call Call) {
	known := Names{"both.test": {"127.0.0.1", "::1", "10.0.0.1"}}
	for _, addr := range Forbidden {
		if ip, err := netip.ParseAddr(addr); err == nil && ip.Zone() == "" { // DNS has no zones
			known["n"+strings.NewReplacer(":", "-", ".", "-").Replace(ip.StringExpanded())+".test"] = []string{addr}
		}
	}
	c := Client(t, outbound.Policy{Resolver: Resolver(known.Lookup)})
	for name := range known {
		assert.Contains(t, call(t, c, "http://"+name+":8080/"), says, name)
	}
}

// allowed is the policy of tests with a server that may be reached.
var allowed = outbound.Policy{Ranges: []string{"127.0.0.1/32"}}

func redirects(t *testing.T, says string, call Call) {
	to := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
	defer s.Close()
	policy := allowed
	policy.Resolver = Resolver(Names{"inner.test": {"10.1.2.3"}}.Lookup)
	c := Client(t, policy)
	targets := []string{
		"http://169.254.169.254/latest/meta-data/", "http://127.0.0.2:1/", "http://inner.test/", "//10.0.0.1/",
		"ftp://10.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/",
	}
	for _, addr := range Forbidden {
		if addr != "127.0.0.1" && addr != "::ffff:127.0.0.1" { // the server's own
			targets = append(targets, "http://"+host(addr)+"/")
		}
	}
	for _, to = range targets {
		assert.Contains(t, call(t, c, s.URL), says, to)
	}
}

// rebinding checks a name that moves to a forbidden address after a first call.
func rebinding(t *testing.T, says string, call Call) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	defer s.Close()
	var moved atomic.Bool
	policy := allowed
	policy.Resolver = Resolver(func(string) []string {
		if moved.Load() {
			return []string{"127.0.0.2"}
		}
		return []string{"127.0.0.1"}
	})
	c := Client(t, policy)
	url := strings.Replace(s.URL, "127.0.0.1", "rebind.test", 1)
	require.Empty(t, call(t, c, url))
	moved.Store(true)
	assert.Contains(t, call(t, c, url), says)
}

// Client returns a client of a valid policy that is closed when the test ends.
func Client(t testing.TB, p outbound.Policy) *http.Client {
	t.Helper()
	c, err := outbound.NewClient(p)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func host(addr string) string {
	if strings.Contains(addr, ":") {
		return "[" + addr + "]"
	}
	return addr
}
