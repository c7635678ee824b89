// Package outbound makes the HTTP clients for calls that users ask for: they
// never reach loopback, link-local, private or metadata addresses, whatever a
// name resolves to and wherever a redirect leads, unless an operator allows a
// range.
package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"code.dny.dev/ssrf"
)

// ErrDenied: the address is not one that users may reach.
var ErrDenied = errors.New("outbound: address not allowed")

// MaxRedirects is how many redirects a call follows.
const MaxRedirects = 10

// Policy is what calls may reach besides public addresses.
type Policy struct {
	Loopback bool     // this machine, on the embedded server's --allow-loopback
	Ranges   []string // CIDR ranges
}

// NewClient makes a client that checks each address it connects to, after
// resolution, so that rebinding gains nothing. It uses no proxy and keeps no
// cookies. Redirects to another origin lose every header but the harmless ones,
// for the rest of the call; 307 and 308 do carry the body on. Calls have no
// time limit but their context's. Errors: a range that does not parse.
func NewClient(p Policy) (*http.Client, error) { return newClient(p, nil) }

func newClient(p Policy, resolver *net.Resolver) (*http.Client, error) {
	v4, v6, err := p.prefixes()
	if err != nil {
		return nil, err
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: guard.Safe, Resolver: resolver}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           100,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        30 * time.Second,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
		CheckRedirect: checkRedirect,
	}, nil
}

// prefixes are the allowed ranges by family. An IPv4 range in its IPv6 form is
// meant as what it maps to, for that is what is dialled.
func (p Policy) prefixes() (v4, v6 []netip.Prefix, err error) {
	ranges := p.Ranges
	if p.Loopback {
		ranges = append([]string{"127.0.0.0/8", "::1/128"}, ranges...)
	}
	for _, r := range ranges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, nil, fmt.Errorf("outbound: allowed range %q: %w", r, err)
		}
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		if prefix = prefix.Masked(); prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return v4, v6, nil
}

// checkRedirect keeps credentials at home: net/http drops only the headers it
// knows to be sensitive when a redirect leads to another host, and brings them
// back when another redirect leads home. The Referer it sets holds the query of
// the URL before, so that goes too.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > MaxRedirects {
		return fmt.Errorf("stopped after %d redirects", MaxRedirects)
	}
	if s := req.URL.Scheme; s != "http" && s != "https" {
		return fmt.Errorf("%w: redirect to %s", ErrDenied, s)
	}
	home, strayed := origin(via[0].URL), origin(req.URL) != origin(via[0].URL)
	for _, r := range via[1:] {
		strayed = strayed || origin(r.URL) != home
	}
	if !strayed {
		return nil
	}
	kept := http.Header{}
	for _, name := range []string{"Accept", "Accept-Language", "User-Agent", "Content-Type"} {
		if v := req.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	req.Header = kept
	req.Host = "" // a Host of the caller's own was for the first origin
	return nil
}

// origin is scheme, host and port of a URL in one form.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(asciiLower(u.Hostname()), port)
}

// asciiLower lowers host names without folding other scripts into ASCII.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Denied reports whether a call failed because its address is not allowed.
func Denied(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrInvalidHostPort) ||
		errors.Is(err, ssrf.ErrProhibitedPort) || errors.Is(err, ssrf.ErrProhibitedNetwork)
}
