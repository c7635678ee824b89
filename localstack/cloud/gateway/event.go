package gateway

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"millrace/shared/platform/ids"
)

// proxyEvent returns API Gateway's event for a request to a resource.
func proxyEvent(r *http.Request, stage, resource string) (events.APIGatewayProxyRequest, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return events.APIGatewayProxyRequest{}, err
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return events.APIGatewayProxyRequest{}, err
	}
	e := events.APIGatewayProxyRequest{
		Resource: resource, Path: r.URL.EscapedPath(), HTTPMethod: r.Method,
		Headers: map[string]string{}, MultiValueHeaders: r.Header,
		QueryStringParameters: map[string]string{}, MultiValueQueryStringParameters: r.URL.Query(),
		RequestContext: events.APIGatewayProxyRequestContext{
			AccountID: "000000000000", APIID: "local", Stage: stage, ResourcePath: resource, HTTPMethod: r.Method,
			Path: "/" + stage + r.URL.EscapedPath(), RequestID: ids.New(time.Now()), DomainName: r.Host,
			Identity: events.APIGatewayRequestIdentity{SourceIP: host, UserAgent: r.UserAgent()},
		},
	}
	for name := range r.Header {
		e.Headers[name] = r.Header.Get(name)
	}
	for name, values := range e.MultiValueQueryStringParameters {
		e.QueryStringParameters[name] = values[len(values)-1]
	}
	if e.Body = string(body); !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e, nil
}
