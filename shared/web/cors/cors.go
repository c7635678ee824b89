// Package cors lets web pages of other origins use the API and upload objects,
// by the CORS protocol (https://fetch.spec.whatwg.org/#http-cors-protocol). Pages
// send their credential in the Authorization header: cookies are never allowed.
package cors

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MaxAgeSeconds is how long browsers may keep the answer to a preflight.
const MaxAgeSeconds = 600

// Methods are the methods that pages may use.
var Methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Exposed are the response headers that pages may read, besides those that they
// always may.
var Exposed = []string{"Allow", "Content-Disposition", "ETag", "Location", "Retry-After", "Traceresponse", "X-Request-Id"}

// Origins are the origins of pages that may use a service. Empty means none.
type Origins []string

// Parse checks origins and returns them without duplicates. The error names one
// that is not an origin such as https://console.example.com; pages of this
// machine may use http. "*" and "null" are no origins.
func Parse(texts []string) (Origins, error) {
	var out Origins
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) || u.Hostname() == "" ||
			text != u.Scheme+"://"+u.Host || text != strings.ToLower(text) || strings.Contains(text, "*") || defaultPort(u) {
			return nil, fmt.Errorf("%q is not an origin such as https://console.example.com, in lower case and without a path", text)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out, nil
}

func local(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "127.0.0.1" || host == "::1"
}

// defaultPort reports whether an origin names the port that browsers omit.
func defaultPort(u *url.URL) bool {
	return u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" || strings.HasSuffix(u.Host, ":")
}

// Handler answers preflights of these origins itself, adds the headers that let
// their pages read the responses of next, and otherwise changes nothing.
func (o Origins) Handler(next http.Handler) http.Handler {
	if len(o) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Origin") // a cache keeps the answers apart
		origin := r.Header["Origin"]
		if len(origin) != 1 || !slices.Contains(o, origin[0]) {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Origin", origin[0])
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			header.Set("Access-Control-Expose-Headers", strings.Join(Exposed, ", "))
			next.ServeHTTP(w, r)
			return
		}
		header.Add("Vary", "Access-Control-Request-Headers")
		header.Set("Access-Control-Allow-Methods", strings.Join(Methods, ", "))
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			header.Set("Access-Control-Allow-Headers", asked)
		}
		header.Set("Access-Control-Max-Age", fmt.Sprint(MaxAgeSeconds))
		w.WriteHeader(http.StatusNoContent)
	})
}
