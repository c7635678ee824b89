package httpapi

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the page's script
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"millrace/shared/platform/errs"
)

//go:generate ./docs/fetch.sh

// The rendered description is made by Scalar's API reference, MIT licence, see
// docs/LICENSE. Its script is served from here and may load nothing from
// elsewhere.
var (
	//go:embed docs/scalar.js.gz
	scalarScript []byte
	//go:embed docs/VERSION
	scalarVersion string
	//go:embed docs/page.html
	docsPage string
	//go:embed docs/start.js
	docsStart []byte
)

// docsPolicy lets the page load from this server only. The script styles its
// elements itself, and draws icons from data.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
	"font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mountDocs serves /openapi.json, /docs and what that page needs.
func (a *API) mountDocs() {
	version := strings.TrimSpace(scalarVersion)
	script := "/docs/scalar-" + version + ".js"
	page := strings.NewReplacer("{{title}}", htmlEscape(a.config.Title), "{{script}}", "."+script).Replace(docsPage)

	a.router.Get("/openapi.json", a.serveJSON)
	a.router.Get("/docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		send(w, "text/html; charset=utf-8", []byte(page))
	})
	a.router.Get("/docs/start.js", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "text/javascript; charset=utf-8", docsStart)
	})
	a.router.Get(script, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			send(w, "text/javascript; charset=utf-8", scalarScript)
			return
		}
		plain, err := plainScript()
		if err != nil {
			toAnswer(errs.New(errs.Internal, "")).write(w)
			return
		}
		send(w, "text/javascript; charset=utf-8", plain)
	})
}

// plainScript unpacks the script for the rare client that takes no gzip.
var plainScript = sync.OnceValues(func() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(scalarScript))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
})

func (a *API) serveJSON(w http.ResponseWriter, r *http.Request) {
	data, err := a.JSON()
	if err != nil {
		a.answer(r.Context(), err).write(w)
		return
	}
	send(w, "application/json", data)
}

func send(w http.ResponseWriter, contentType string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the client may be gone
}

var htmlEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace
