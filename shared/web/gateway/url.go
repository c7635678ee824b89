package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"millrace/shared/account/tenant"
)

// ErrNotURLEvent means that the payload is not an event of a function URL.
var ErrNotURLEvent = errors.New("the payload is not an event of a function URL: requestContext.http.method and rawPath are required")

// AnswerURL returns a buffered response to an event of the function's URL: the
// payload format 2.0, without resource and stage. Errors: ErrNotURLEvent.
func (f *Function) AnswerURL(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	defer f.after()
	call := event.RequestContext
	if call.HTTP.Method == "" || event.RawPath == "" {
		return events.APIGatewayV2HTTPResponse{}, ErrNotURLEvent
	}
	ctx = tenant.WithRequest(ctx, tenant.Request{ID: call.RequestID})
	w := core.NewProxyResponseWriterV2()
	r, err := (&core.RequestAccessorV2{}).EventToRequestWithContext(ctx, event)
	if err != nil {
		err = refuse(w)
	} else {
		err = handle(f.handler, w, r)
	}
	if err != nil {
		return events.APIGatewayV2HTTPResponse{}, err
	}
	return w.GetProxyResponse()
}

// refuse answers an event whose path or body a server would reject as well.
func refuse(w http.ResponseWriter) error {
	return reply(w, http.StatusBadRequest, "The request is malformed")
}

// reply answers without a handler. detail needs no escapes.
func reply(w http.ResponseWriter, status int, detail string) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := w.Write([]byte(`{"detail":"` + detail + `"}`))
	return err
}
