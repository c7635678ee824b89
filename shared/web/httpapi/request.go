package httpapi

import (
	"context"
	"net/http"

	"millrace/shared/account/tenant"
)

// Request describes the request being served: id, client address, method, route
// pattern, user agent, start.
type Request = tenant.Request

// RequestFrom returns the request of ctx, or the zero Request outside of one.
func RequestFrom(ctx context.Context) Request { return tenant.RequestFrom(ctx) }

// HeaderFrom returns the headers of the request of ctx, for headers whose names
// are not known beforehand; nil outside of a request.
func HeaderFrom(ctx context.Context) http.Header {
	if r := callFrom(ctx).http; r != nil {
		return r.Header
	}
	return nil
}

// ActFor returns a context of a workspace without a caller, for a public
// operation that finds the workspace by a secret of its own. The request's log
// lines and traces are the workspace's from then on.
func ActFor(ctx context.Context, org string) context.Context {
	c := callFrom(ctx)
	c.principal, c.subject.Workspace = tenant.Principal{OrgID: org}, org
	return tenant.With(ctx, c.principal)
}

// Items is the body of a list without paging.
type Items[T any] struct {
	Items []T `json:"items"`
}

// Page is the body of a list with paging. NextToken is absent on the last page;
// a page without items but with a NextToken is not the last.
type Page[T any] struct {
	Items     []T    `json:"items"`
	NextToken string `json:"next_token,omitempty"`
}
