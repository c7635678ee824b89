package httpapi

import (
	"context"
	"net/http"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/telemetry"
)

// call is the state of one request. It is in the context.
type call struct {
	request   tenant.Request
	subject   telemetry.Subject // of the log lines; also in the context
	parent    telemetry.Trace   // of the subject's span; zero: none
	principal tenant.Principal
	op        *Operation    // nil until a route matched
	rawPath   string        // without a trailing slash
	slash     bool          // the path had a trailing slash
	details   []errs.Detail // validation errors of the body
	data      []byte        // the body, until it is decoded
	size      int           // of the body, in bytes
	missing   []absent      // fields of the body that take their defaults
	failure   error         // cause of a 503
	reported  bool          // a 500 was logged and its trace stored
	http      *http.Request
}

type callKey struct{}

// callFrom returns the context's call, or an empty one outside of a request.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}
