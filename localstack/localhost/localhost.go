// Package localhost guards the routes that a server of one's own has beside the
// API: from where they may be asked ([Only]), and with which credential ([Keys]).
package localhost

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Only keeps web pages out, which reach a server here through the user's browser:
// under a foreign origin, or under a name of their own that resolves to this
// machine. It is no credential: see [Keys].
func Only(next http.Handler) http.Handler {
	browsers := http.NewCrossOriginProtection()
	browsers.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w) }))
	guarded := browsers.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			refuse(w)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"detail":"This route is for programs: ask for it by IP address or as localhost, and from no web page"}`))
}

// local reports whether a Host header is an address or localhost, not a name
// that somebody else's DNS may give out.
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
