package httpapi

import (
	"context"

	"millrace/shared/account/tenant"
)

// Request describes the request being served: id, client address, method, route
// pattern, user agent, start.
type Request = tenant.Request

// RequestFrom returns the request of ctx, or the zero Request outside of one.
func RequestFrom(ctx context.Context) Request { return tenant.RequestFrom(ctx) }

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
