// Package localhost guards routes that ask for no credential.
package localhost

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Only keeps out whoever is not a program on this machine: the routes
// behind it ask for no credential. Besides other machines these are web pages,
// which reach a server here through the user's browser, under a foreign origin
// or under a name of their own that resolves to this machine; and requests that
// a proxy passes on.
func Only(next http.Handler) http.Handler {
	browsers := http.NewCrossOriginProtection()
	browsers.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w) }))
	guarded := browsers.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
		if forwarded || !loopback(r.RemoteAddr) || !local(r.Host) {
			refuse(w)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"detail":"This route is for programs on the server's own machine"}`))
}

// loopback reports whether host:port is an address of this machine's loopback.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
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
