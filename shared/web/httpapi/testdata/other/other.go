// Package other is a second domain, with the same names as the first.
package other

import (
	"context"

	"millrace/shared/web/httpapi"
)

type createBody struct {
	Theirs string `json:"theirs"`
}

// Register adds an operation with a createBody.
func Register(a *httpapi.API, op httpapi.Operation) {
	httpapi.Register(a, op, func(context.Context, *struct{ Body createBody }) (httpapi.None, error) { return httpapi.None{}, nil })
}
