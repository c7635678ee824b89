package console

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

//go:generate ./docs/fetch.sh

// The page uses Scalar's API reference (MIT licence, see docs/LICENSE). Its
// script is served from here and may load nothing from other servers.
var (
	//go:embed docs/scalar.js.gz
	script []byte
	//go:embed docs/VERSION
	scriptVersion string
	//go:embed docs/page.html
	page string
	//go:embed docs/start.js
	start []byte
	// manual is the Markdown of docs as HTML, which make generate writes: what is
	// deployed has no renderer, and its start does nothing for the pages.
	//go:embed docs/pages/*.html
	manual embed.FS
)

const (
	htmlType   = "text/html; charset=utf-8"
	javaScript = "text/javascript; charset=utf-8"
	forever    = "public, max-age=31536000, immutable" // for paths that contain the version
	// policy lets the page load only from this server. The script sets styles on
	// its elements, and draws icons from data URLs.
	policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
		"font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// manualPolicy is that of the manual's pages, which are text and a style.
	manualPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

func scriptPath() string { return "/docs/scalar-" + strings.TrimSpace(scriptVersion) + ".js" }

type service struct {
	url      string // of the deployment; empty if unknown
	library  *httpapi.Packed
	document func() (*httpapi.Packed, error) // of the whole API
	pages    sync.Map                        // *httpapi.Packed of pages that were asked for, by name
}

func newService(api *httpapi.API, url string) *service {
	return &service{url: url, library: httpapi.InGzip(script), document: sync.OnceValues(func() (*httpapi.Packed, error) {
		data, err := api.Whole().JSON()
		return httpapi.Pack(data), err
	})}
}

// root serves GET /.
func (s *service) root(context.Context, *httpapi.None) (httpapi.Redirect, error) {
	// Without a URL of the deployment, no prefix precedes the paths of the API.
	return httpapi.Redirect{Location: s.url + "/docs"}, nil
}

// page serves GET /docs.
func (s *service) page(context.Context, *httpapi.None) (httpapi.File, error) {
	text := strings.NewReplacer("{{script}}", "."+scriptPath()).Replace(page)
	return httpapi.File{Type: htmlType, Data: []byte(text), Header: http.Header{
		"Content-Security-Policy": {policy}, "Referrer-Policy": {"no-referrer"},
	}}, nil
}

// manualPage serves GET /docs/{page}.
func (s *service) manualPage(_ context.Context, in *manualInput) (httpapi.File, error) {
	packed, ok := s.pages.Load(in.Page)
	if !ok {
		data, err := manual.ReadFile(path.Join("docs/pages", in.Page+".html"))
		if errors.Is(err, fs.ErrNotExist) {
			return httpapi.File{}, errs.New(errs.NotFound, "There is no such page")
		}
		if err != nil {
			return httpapi.File{}, err
		}
		packed, _ = s.pages.LoadOrStore(in.Page, httpapi.Pack(data))
	}
	return httpapi.File{Type: htmlType, Packed: packed.(*httpapi.Packed), Header: http.Header{
		"Content-Security-Policy": {manualPolicy}, "Referrer-Policy": {"no-referrer"},
	}}, nil
}

// start serves GET /docs/start.js.
func (s *service) start(context.Context, *httpapi.None) (httpapi.File, error) {
	return httpapi.File{Type: javaScript, Data: start}, nil
}

// script serves GET /docs/scalar-<version>.js.
func (s *service) script(context.Context, *httpapi.None) (httpapi.File, error) {
	return httpapi.File{Type: javaScript, Packed: s.library, Cache: forever}, nil
}

// openapi serves GET /openapi.json.
func (s *service) openapi(context.Context, *httpapi.None) (httpapi.File, error) {
	document, err := s.document()
	return httpapi.File{Type: "application/json", Packed: document}, err
}
