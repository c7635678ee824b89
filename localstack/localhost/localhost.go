// Package localhost protects the routes that a self-hosted server has besides
// the API: it checks where requests come from ([Only]) and their credential
// ([Keys]).
package localhost

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Only rejects requests of web pages, which reach a local server through the
// user's browser: from a foreign origin, or under a host name that resolves to
// this machine. It does not replace a credential: see [Keys].
func Only(next http.Handler) http.Handler {
	browsers := http.NewCrossOriginProtection()
	browsers.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { forbid(w) }))
	guarded := browsers.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			forbid(w)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func forbid(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"detail":"This route is for programs: ask for it by IP address or as localhost, and from no web page"}`))
}

// local reports whether a Host header is an address or localhost, and not a
// name under the control of another DNS.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
