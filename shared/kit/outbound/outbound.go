// Package outbound provides HTTP clients for requests on behalf of users. They
// never connect to loopback, link-local, private or metadata addresses,
// whatever a name resolves to and wherever a redirect leads, unless an operator
// allows a range.
package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// ErrDenied means that users may not connect to the address.
var ErrDenied = errors.New("outbound: address not allowed")

// MaxRedirects is the number of redirects that a call follows.
const MaxRedirects = 10

// Policy defines which addresses besides public ones are allowed.
type Policy struct {
	Loopback bool     // this machine; set by the embedded server's --allow-loopback
	Ranges   []string // CIDR ranges
	// Resolver looks up host names; nil means net.DefaultResolver.
	Resolver *net.Resolver
}

// NewClient returns a client that checks each address when it connects, after
// resolution, so that DNS rebinding has no effect. It uses no proxy and keeps
// no cookies. After a redirect to another origin, only harmless headers are
// sent for the rest of the call; 307 and 308 still resend the body. Calls have
// no time limit except their context's. Errors: an invalid range.
func NewClient(p Policy) (*http.Client, error) {
	v4, v6, err := p.prefixes()
	if err != nil {
		return nil, err
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: guard.Safe, Resolver: p.Resolver}
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

// prefixes returns the allowed ranges by family. An IPv4-mapped IPv6 range
// counts as IPv4, because that is what is dialled.
func (p Policy) prefixes() (v4, v6 []netip.Prefix, err error) {
	ranges := p.Ranges
	if p.Loopback {
		ranges = append([]string{"127.0.0.0/8", "::1/128"}, ranges...)
	}
	for _, r := range ranges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, nil, fmt.Errorf("outbound: invalid range %q: %w", r, err)
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

// checkRedirect drops credentials: net/http drops only known sensitive headers
// when a redirect leads to another host, and restores them when another
// redirect leads back. The Referer header is dropped as well, because it
// contains the query of the previous URL.
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
	req.Host = "" // a custom Host applied to the first origin
	return nil
}

// KeepRedirects returns a client that does not follow redirects with the
// statuses that are expected, and returns them as answers.
func KeepRedirects(c *http.Client, expected func(status int) bool) *http.Client {
	keeping := *c
	keeping.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if expected(req.Response.StatusCode) {
			return http.ErrUseLastResponse
		}
		if c.CheckRedirect != nil {
			return c.CheckRedirect(req, via)
		}
		return nil
	}
	return &keeping
}

// origin returns the canonical scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(asciiLower(u.Hostname()), port)
}

// asciiLower lower-cases host names without mapping other scripts to ASCII.
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

// Cause returns the reason why a call failed, without its URL, which may
// contain a credential, and without the addresses of this machine and its name
// servers.
func Cause(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("lookup %s: %s", e.Name, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if strings.HasPrefix(err.Error(), "failed to parse Location header") {
		return "the answer redirects to what is not a URL"
	}
	return err.Error()
}
