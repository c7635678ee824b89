// Package httpapi is the frame that every HTTP operation hangs in. It gives
// each request an id and a place in a trace, authenticates the caller, checks the operation's access,
// reads and validates path, query and body, turns errors into the interface's
// {"detail": …}, and describes it all as OpenAPI; so that a handler holds only
// its domain's rules.
//
// The order of checks is 401, 403, 422, then the handler's own: 404, state.
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
	"millrace/shared/platform/telemetry"
)

// Authenticator turns a bearer credential into a principal. orgHeader is the
// X-Org-Id header, mutation says that the operation changes something. Errors:
// errs.Unauthenticated for a credential that is unknown, expired or revoked;
// errs.Forbidden for suspended access or a workspace that cannot be chosen.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer, orgHeader string, mutation bool) (tenant.Principal, error)
}

// Limiter counts the requests of callers. Errors: errs.TooMany for one too many.
type Limiter interface {
	Request(ctx context.Context, p tenant.Principal, mutation bool) error
}

// Config is what an API is made of. An API that only describes its operations
// needs none of it.
type Config struct {
	Title, Version string
	Authenticator  Authenticator      // nil: every operation that is not public answers 401
	Limiter        Limiter            // nil: requests are not counted
	Clock          clock.Clock        // nil: clock.System
	CursorKey      []byte             // signs list cursors; at least 16 bytes
	Traces         blob.Store         // where exception traces go; nil: they are only logged
	Log            *slog.Logger       // nil: slog.Default
	Metrics        *telemetry.Metrics // nil: nothing is measured
	Bodies         *Bodies            // bounds the memory of request bodies; nil: has none
	// TrustForwarded takes the client's address from X-Forwarded-For. Set it
	// only behind a proxy that overwrites or appends to that header.
	TrustForwarded bool
	// URL is where callers reach the API, without a slash at its end, for its
	// description. Empty: where they got the description from.
	URL string
	// Whole is the API of the whole service, if this one is the function's that a
	// gateway sends what matches no operation. It only describes; it is called
	// when it is first needed. Nil: this one is all that there is.
	Whole func() *API
}

// API is a set of operations and the handler that answers them. Register all
// operations before serving.
type API struct {
	config  Config
	router  *chi.Mux
	names   *namer
	shapes  *shaper
	ops     []Operation
	handler http.Handler

	document  *huma.OpenAPI
	writeOnce sync.Once
	written   []byte // the document as JSON
	writeErr  error
}

// New makes an API without operations.
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
	a.handler = a.frame(a.router)
	return a
}

// Handler answers requests. The same for every call.
func (a *API) Handler() http.Handler { return a.handler }

// Operations lists what was registered, in the order of registration.
func (a *API) Operations() []Operation { return slices.Clone(a.ops) }

// Cursors seals and opens list cursors with the API's key.
func (a *API) Cursors() Cursors { return Cursors{key: a.config.CursorKey} }
