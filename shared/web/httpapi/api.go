// Package httpapi is the framework of every HTTP operation. It gives each
// request an id and a trace span, authenticates the caller, checks the
// operation's access, reads and validates path, query and body, converts errors
// to the interface's {"detail": …}, and describes all operations as OpenAPI, so
// that a handler contains only its domain's rules.
//
// Checks are made in the order 401, 403, 422, then those of the handler: 404,
// state.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/cors"
)

// Authenticator authenticates a bearer credential. orgHeader is the X-Org-Id
// header, mutation tells whether the operation changes state. Errors:
// errs.Unauthenticated for a credential that is unknown, expired or revoked;
// errs.Forbidden for suspended access or a workspace that cannot be selected.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer, orgHeader string, mutation bool) (tenant.Principal, error)
}

// Limiter counts the requests of callers. It returns errs.TooMany beyond a
// limit.
type Limiter interface {
	Request(ctx context.Context, p tenant.Principal, mutation bool) error
}

// Config configures an API. An API that only describes its operations needs
// none of it.
type Config struct {
	Title, Version string
	Authenticator  Authenticator      // nil: every operation that is not public answers 401
	Limiter        Limiter            // nil: requests are not counted
	Clock          clock.Clock        // nil: clock.System
	CursorKeys     *keyring.Ring      // sign list cursors; of at least 16 bytes
	Traces         blob.Store         // stores exception traces; nil: they are only logged
	Log            *slog.Logger       // nil: slog.Default
	Metrics        *telemetry.Metrics // nil: nothing is measured
	Spans          *telemetry.Spans   // of requests; nil: none
	Bodies         *Bodies            // bounds the memory of request bodies; nil: unbounded
	// TrustForwarded takes the client's address from X-Forwarded-For. Set it
	// only behind a proxy that overwrites or appends to that header.
	TrustForwarded bool
	Origins        cors.Origins // of web pages that may use the API; empty: none of another origin
	// URL is the base URL for callers in the description, without a trailing
	// slash. If empty, it is that of the description's own request.
	URL string
	// Whole returns the API of the whole service, if this one belongs to the
	// function that handles requests which match no operation of the gateway. It
	// serves only descriptions and is called on first use. Nil means that this API
	// is the whole service.
	Whole func() *API
}

// API is a set of operations and their handler. Register all operations before
// serving.
type API struct {
	config  Config
	router  *chi.Mux
	names   *namer
	shapes  *shaper
	ops     []Operation
	handler http.Handler

	document  *huma.OpenAPI
	writeOnce sync.Once
	written   []byte // the description as JSON
	writeErr  error
}

// New returns an API without operations.
func New(c Config) *API {
	setupHuma()
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	a := &API{config: c, router: chi.NewMux(), names: newNamer()}
	a.document = newDocument(&a.config, a.names)
	a.shapes = &shaper{registry: a.document.Components.Schemas, structs: map[reflect.Type]*shape{}}
	a.documentErrors()
	a.router.NotFound(a.notFound)
	a.router.MethodNotAllowed(a.methodNotAllowed)
	a.handler = c.Origins.Handler(a.frame(a.router))
	return a
}

// Handler returns the handler of all requests. It is always the same one.
func (a *API) Handler() http.Handler { return a.handler }

// Operations returns the registered operations in the order of registration.
func (a *API) Operations() []Operation { return slices.Clone(a.ops) }

// DeriveKeys returns keys of 32 bytes for a purpose, the same in all processes
// of the service: they are derived from the keys that sign cursors.
func (a *API) DeriveKeys(purpose string) *keyring.Ring { return a.config.CursorKeys.Derive(purpose) }

// Cursors returns the codec of list cursors with the API's keys.
func (a *API) Cursors() Cursors { return Cursors{keys: a.config.CursorKeys} }
