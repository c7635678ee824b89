// Package gateway handles the proxy events of an API Gateway REST API, and those
// of a Lambda function URL, with the operations of one function, buffered or as
// a stream.
//
// The invocation type of the integration determines the form of the response,
// so a function with a streaming operation streams all of its responses: its
// operations are integrated with the URI response-streaming-invocations and the
// transfer mode STREAM, those of other functions as usual. A streamed response
// is a prelude, {"statusCode", "multiValueHeaders"} as JSON, eight NUL bytes,
// and the body as it is written. It is not held in memory, and the 6 MB limit
// of a buffered response does not apply.
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

// maxResponse is the largest response of a function that does not stream, in
// bytes of its JSON; Lambda fails the invocation of a larger one.
const maxResponse = 6 << 20

// ErrNotProxyEvent means that the payload is not an event of a proxy
// integration.
var ErrNotProxyEvent = errors.New("the payload is not an API Gateway proxy event: httpMethod and path are required")

// errCut ends a streamed response that could not be completed.
var errCut = errors.New("the answer was cut off")

// Function is an HTTP function behind a gateway. It is safe for concurrent use.
type Function struct {
	handler  http.Handler
	accessor core.RequestAccessor
	streams  bool
	after    func()
}

// New returns a function that serves its own operations and no others. after is
// called when a request was handled, before the response ends; it may be nil.
func New(spec fn.Spec, frame httpapi.Config, deps fn.Deps, after func()) *Function {
	// API Gateway passes on the client's X-Forwarded-For, which is not
	// trustworthy; the caller's address is in the event.
	frame.TrustForwarded = false
	api := httpapi.New(frame)
	spec.Routes(api, deps)
	if after == nil {
		after = func() {}
	}
	return &Function{handler: api.Handler(), streams: Streams(api.Operations()), after: after}
}

// Streams reports whether a function with these operations streams its
// responses.
func Streams(ops []httpapi.Operation) bool {
	return slices.ContainsFunc(ops, func(op httpapi.Operation) bool { return op.Stream })
}

// Streams reports whether to call Stream instead of Answer.
func (f *Function) Streams() bool { return f.streams }

// Answer returns a buffered response to an event. Errors: ErrNotProxyEvent.
func (f *Function) Answer(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	defer f.after()
	w := core.NewProxyResponseWriter()
	if err := f.serve(ctx, w, event); err != nil {
		return events.APIGatewayProxyResponse{}, err
	}
	out, err := w.GetProxyResponse()
	if err == nil && tooLarge(out.MultiValueHeaders, out.Body) {
		w = core.NewProxyResponseWriter()
		if err = overflow(w); err == nil {
			return w.GetProxyResponse()
		}
	}
	return out, err
}

// tooLarge reports whether a response does not fit into what Lambda accepts.
func tooLarge(header http.Header, body string) bool {
	size := quoted(body) + 1<<10 // for the frame
	if size <= maxResponse/2 {   // the rest is for the headers
		return false
	}
	for name, values := range header {
		for _, value := range values {
			size += quoted(name) + quoted(value)
		}
	}
	return size > maxResponse
}

// quoted returns the size of a text as a JSON string. It counts control
// characters as the longest ones are written.
func quoted(text string) int {
	size := len(text) + len(`"",`)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			size++
		case c < ' ':
			size += len(`\u0000`) - 1
		}
	}
	return size
}

// overflow answers in place of a response that does not fit, which is that of a
// list.
func overflow(w http.ResponseWriter) error {
	return reply(w, http.StatusRequestEntityTooLarge, "The response would have more than 6 MB; ask for fewer items, with limit")
}

// serve handles the event's request.
func (f *Function) serve(ctx context.Context, w http.ResponseWriter, event events.APIGatewayProxyRequest) error {
	if event.HTTPMethod == "" || event.Path == "" {
		return ErrNotProxyEvent
	}
	r, err := f.request(ctx, event)
	if err != nil {
		return refuse(w)
	}
	return handle(f.handler, w, r)
}

// handle converts the panic by which a handler aborts its response to an error.
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

// request converts the event to a request: without the stage in its path, with
// the caller's address and the gateway's request id.
func (f *Function) request(ctx context.Context, event events.APIGatewayProxyRequest) (*http.Request, error) {
	event.Path = withoutStage(event)
	ctx = tenant.WithRequest(ctx, tenant.Request{ID: event.RequestContext.RequestID})
	return f.accessor.EventToRequestWithContext(ctx, event)
}

// withoutStage returns the path as the operations know it, without the stage or
// base path that precedes it in some set-ups. The resource, which is the
// matched pattern, contains neither.
func withoutStage(event events.APIGatewayProxyRequest) string {
	stage := event.RequestContext.Stage
	head, _, _ := strings.Cut(strings.TrimPrefix(event.Path, "/"), "/")
	own, _, _ := strings.Cut(strings.TrimPrefix(event.Resource, "/"), "/")
	if stage == "" || head != stage || own == stage {
		return event.Path
	}
	return "/" + strings.TrimPrefix(strings.TrimPrefix(event.Path, "/"+stage), "/")
}
