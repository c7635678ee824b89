package httpapi

import (
	"context"
	"net/http"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/telemetry"
)

// call is what the frame knows about one request; it travels in the context.
type call struct {
	request   tenant.Request
	subject   telemetry.Subject // of the log lines; also in the context
	principal tenant.Principal
	op        *Operation    // nil until a route matched
	rawPath   string        // without a slash at its end
	slash     bool          // the path had one
	details   []errs.Detail // what is wrong with the body
	data      []byte        // the body, until it is decoded
	size      int           // of the body, in bytes
	missing   []absent      // fields of it that take their defaults
	failure   error         // why a 503 was answered
	reported  bool          // a 500 is logged and its trace stored
	http      *http.Request
}

type callKey struct{}

// callFrom returns the context's call, an empty one outside of a request.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
