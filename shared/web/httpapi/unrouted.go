package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"millrace/shared/platform/errs"
)

// Whole returns the API of the whole service, of which this one may be a part.
func (a *API) Whole() *API {
	if a.config.Whole != nil {
		return a.config.Whole()
	}
	return a
}

// notFound answers a request for a path that the API does not have. If it is
// part of a whole, it answers for all of it, because a gateway sends it what
// matched no operation.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	methods := a.Whole().methods(r.URL)
	switch {
	case a.config.Whole == nil || len(methods) == 0:
		toAnswer(errs.New(errs.NotFound, "Not Found")).write(w)
	case !slices.Contains(methods, r.Method):
		refuseMethod(w, methods)
	case callFrom(r.Context()).slash: // the reason why the gateway found no operation
		redirectWithoutSlash(w, r)
	default: // another function serves it
		toAnswer(errs.New(errs.NotFound, "Not Found")).write(w)
	}
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	refuseMethod(w, a.Whole().methods(r.URL))
}

func refuseMethod(w http.ResponseWriter, allowed []string) {
	w.Header()["Allow"] = allowed
	(&answered{Detail: "Method Not Allowed", status: http.StatusMethodNotAllowed}).write(w)
}

// methods returns the methods of the operations with a path.
func (a *API) methods(u *url.URL) []string {
	path := u.RawPath
	if path == "" {
		path = u.Path
	}
	var out []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if a.router.Match(chi.NewRouteContext(), method, path) {
			out = append(out, method)
		}
	}
	return out
}

// withoutSlash returns the request without the trailing slash of its path, and
// whether it had one. A path with and without it is one operation.
func withoutSlash(r *http.Request) (*http.Request, bool) {
	path, slash := strings.CutSuffix(r.URL.Path, "/")
	if !slash || path == "" {
		return r, false
	}
	u, out := *r.URL, *r
	u.Path, u.RawPath = path, strings.TrimSuffix(u.RawPath, "/")
	out.URL = &u
	return &out, true
}

// redirectWithoutSlash redirects a request whose path had a trailing slash; the
// client repeats method and body. The location is relative, because a stage of
// the gateway or a proxy's prefix may precede the path.
func redirectWithoutSlash(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	location := "../" + path[strings.LastIndexByte(path, '/')+1:]
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusPermanentRedirect)
}
