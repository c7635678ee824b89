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
// resolution, so that rebinding gains nothing. It uses no proxy. Redirects to
// another host lose every header but the harmless ones. Errors: a range that
// does not parse.
func NewClient(p Policy) (*http.Client, error) {
	ranges := p.Ranges
	if p.Loopback {
		ranges = append([]string{"127.0.0.0/8", "::1/128"}, ranges...)
	}
	var v4, v6 []netip.Prefix
	for _, r := range ranges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, fmt.Errorf("outbound: %w", err)
		}
		if prefix = prefix.Masked(); prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: guard.Safe}
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

// checkRedirect keeps credentials at home: net/http drops only the headers it
// knows to be sensitive when a redirect leads to another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= MaxRedirects {
		return fmt.Errorf("stopped after %d redirects", MaxRedirects)
	}
	if s := req.URL.Scheme; s != "http" && s != "https" {
		return fmt.Errorf("%w: redirect to %s", ErrDenied, s)
	}
	if req.URL.Host == via[0].URL.Host {
		return nil
	}
	kept := http.Header{}
	for _, name := range []string{"Accept", "Accept-Language", "User-Agent", "Content-Type"} {
		if v := req.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	req.Header = kept
	return nil
}

// Denied reports whether a call failed because its address is not allowed.
func Denied(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ssrf.ErrProhibitedIP) ||
		errors.Is(err, ssrf.ErrProhibitedPort) || errors.Is(err, ssrf.ErrProhibitedNetwork)
}
