package tenant

import (
	"context"
	"time"
)

// Request describes the HTTP request being served, for records of where a
// change came from.
type Request struct {
	ID        string // returned as X-Request-Id
	IP        string // of the client, without port
	Method    string
	Path      string // the route pattern, e.g. /runs/{run_id}, never a raw path
	UserAgent string
	Start     time.Time
}

type requestKey struct{}

// WithRequest returns a context with the request's description.
func WithRequest(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestFrom returns the context's request, the zero Request outside of one.
func RequestFrom(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}
