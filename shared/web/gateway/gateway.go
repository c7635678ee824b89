// Package gateway answers the proxy events of an API Gateway REST API with the
// operations of one function: whole, or as a stream.
//
// A function that has a streaming operation answers everything as a stream,
// because the form of the answer belongs to how the API invokes it: all of its
// operations are integrated with the URI response-streaming-invocations and the
// transfer mode STREAM, those of other functions as usual. A streamed answer is
// a prelude, {"statusCode", "multiValueHeaders"} as JSON, eight NUL bytes, and
// the body as it is written; so it is neither held in memory nor bound by the
// 6 MB of a whole answer.
package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// ErrNotProxyEvent: the payload is no event of a proxy integration.
var ErrNotProxyEvent = errors.New("the payload is not an API Gateway proxy event: httpMethod and path are required")

// errCut ends a streamed answer that could not be completed.
var errCut = errors.New("the answer was cut off")

// Function is an HTTP function behind a gateway. It is safe for concurrent use.
type Function struct {
	handler  http.Handler
	accessor core.RequestAccessor
	streams  bool
	after    func()
}

// New builds a function that serves its own operations and no others. after is
// called when a request was answered, before its answer ends; nil: nothing is.
func New(spec fn.Spec, frame httpapi.Config, deps fn.Deps, after func()) *Function {
	// The gateway says who called; its X-Forwarded-For begins with what the
	// client sent.
	frame.TrustForwarded = false
	api := httpapi.New(frame)
	spec.Routes(api, deps)
	if after == nil {
		after = func() {}
	}
	return &Function{handler: api.Handler(), streams: Streams(api.Operations()), after: after}
}

// Streams reports whether a function with these operations answers as a stream.
func Streams(ops []httpapi.Operation) bool {
	return slices.ContainsFunc(ops, func(op httpapi.Operation) bool { return op.Stream })
}

// Streams reports whether the function is to be answered with Stream.
func (f *Function) Streams() bool { return f.streams }

// Answer answers an event whole. Errors: ErrNotProxyEvent.
func (f *Function) Answer(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	defer f.after()
	w := core.NewProxyResponseWriter()
	if err := f.serve(ctx, w, event); err != nil {
		return events.APIGatewayProxyResponse{}, err
	}
	return w.GetProxyResponse()
}

// serve answers the event's request.
func (f *Function) serve(ctx context.Context, w http.ResponseWriter, event events.APIGatewayProxyRequest) error {
	if event.HTTPMethod == "" || event.Path == "" {
		return ErrNotProxyEvent
	}
	r, err := f.request(ctx, event)
	if err != nil { // a server would refuse the same request line or body
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, err = w.Write([]byte(`{"detail":"The request is malformed"}`))
		return err
	}
	return handle(f.handler, w, r)
}

// handle turns the panic by which a handler cuts its answer off into an error.
func handle(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = errCut
		default:
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// request is the event as a request: without the stage in its path, from the
// caller's address, under the gateway's request id.
func (f *Function) request(ctx context.Context, event events.APIGatewayProxyRequest) (*http.Request, error) {
	event.Path = withoutStage(event)
	ctx = tenant.WithRequest(ctx, tenant.Request{ID: event.RequestContext.RequestID})
	return f.accessor.EventToRequestWithContext(ctx, event)
}

// withoutStage is the path as the operations know it: without the stage, or the
// base path of a domain, that stands before it in some set-ups. The resource,
// the pattern that matched, has neither.
func withoutStage(event events.APIGatewayProxyRequest) string {
	stage := event.RequestContext.Stage
	head, _, _ := strings.Cut(strings.TrimPrefix(event.Path, "/"), "/")
	own, _, _ := strings.Cut(strings.TrimPrefix(event.Resource, "/"), "/")
	if stage == "" || head != stage || own == stage {
		return event.Path
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(event.Path, "/"+stage), "/")
}
