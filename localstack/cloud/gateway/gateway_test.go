package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/gateway"
	"millrace/localstack/runtimeapi"
)

// play returns a function that responds to events by function name.
func play(t *testing.T) func(context.Context, string, []byte) (*runtimeapi.Answer, error) {
	return func(ctx context.Context, function string, payload []byte) (*runtimeapi.Answer, error) {
		var event events.APIGatewayProxyRequest
		assert.NoError(t, json.Unmarshal(payload, &event))
		switch function {
		case "faulty":
			return nil, &runtimeapi.Fault{Type: "E", Message: "secret cause"}
		case "slow":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case "stream":
			return &runtimeapi.Answer{
				ContentType: "application/vnd.awslambda.http-integration-response",
				Body:        io.NopCloser(strings.NewReader(`{"statusCode":202,"multiValueHeaders":{"x-two":["a","b"]}}` + strings.Repeat("\x00", 8) + "in pieces")),
			}, nil
		case "cut":
			return &runtimeapi.Answer{
				ContentType: "application/vnd.awslambda.http-integration-response",
				Body:        io.NopCloser(io.MultiReader(strings.NewReader(`{"statusCode":200}`+strings.Repeat("\x00", 8)+"half"), broken{})),
			}, nil
		}
		body, err := json.Marshal(events.APIGatewayProxyResponse{
			StatusCode: 201, MultiValueHeaders: map[string][]string{"X-Resource": {event.Resource}},
			Body: strings.Join([]string{event.HTTPMethod, event.Path, event.RequestContext.Path, event.QueryStringParameters["q"], event.Body}, " "),
		})
		return &runtimeapi.Answer{Body: io.NopCloser(strings.NewReader(string(body)))}, err
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func open(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(gateway.New(gateway.Config{
		Stage: "v1", Invoke: play(t), Log: slog.New(slog.DiscardHandler),
		Routes: []gateway.Route{
			{Method: "POST", Path: "/things/{id}", Function: "echo"},
			{Method: "GET", Path: "/things/by-slug/{slug}", Function: "echo"},
			{Method: "GET", Path: "/things/{id}/logs", Function: "echo"},
			{Method: "GET", Path: "/faulty", Function: "faulty"},
			{Method: "GET", Path: "/slow", Function: "slow", Timeout: 20 * time.Millisecond},
			{Method: "GET", Path: "/stream", Function: "stream", Stream: true},
			{Method: "GET", Path: "/cut", Function: "cut", Stream: true},
			{Method: "GET", Path: "/wrong", Function: "echo", Stream: true},
			{Method: "GET", Path: "/any", Function: "echo"},
			{Method: gateway.AnyMethod, Path: "/any", Function: "echo"},
			{Method: gateway.AnyMethod, Path: "/rest/{proxy+}", Function: "echo"},
		},
		Responses: map[string]gateway.Response{
			"MISSING_AUTHENTICATION_TOKEN": {Status: 404, Template: `{"detail": "Not Found"}`, Headers: map[string]string{
				"gatewayresponse.header.X-Request-Id": "context.requestId", "gatewayresponse.header.X-Fixed": "'it'",
			}},
			"DEFAULT_5XX": {Template: `{"detail": $context.error.messageString}`},
		},
	}))
	t.Cleanup(server.Close)
	return server
}

func ask(t *testing.T, method, url, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, string(data), err
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	server := open(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/things/a%2Fb?q=1&q=2", "hello", 201, "POST /things/a%2Fb /v1/things/a%2Fb 2 hello"},
		{"GET", "/things/by-slug/logs", "", 201, "GET /things/by-slug/logs /v1/things/by-slug/logs  "},
		{"GET", "/things/x/logs", "", 201, "GET /things/x/logs /v1/things/x/logs  "},
		{"GET", "/faulty", "", 502, `{"detail": "Internal server error"}`},
		{"GET", "/slow", "", 504, `{"detail": "Endpoint request timed out"}`},
		{"GET", "/stream", "", 202, "in pieces"},
		{"GET", "/any", "", 201, "GET /any /v1/any  "},
		{"DELETE", "/any", "", 201, "DELETE /any /v1/any  "},
		{"PUT", "/rest/of/it/", "", 201, "PUT /rest/of/it/ /v1/rest/of/it/  "},
		{"GET", "/nothing", "", 404, `{"detail": "Not Found"}`},
		{"DELETE", "/faulty", "", 404, `{"detail": "Not Found"}`},
		{"POST", "/things/x", strings.Repeat("x", gateway.MaxBody+1), 413, `{"message":"Request Too Long"}`},
	} {
		res, body, err := ask(t, c.method, server.URL+c.path, c.body)
		require.NoError(t, err, c.path)
		assert.Equal(t, c.status, res.StatusCode, c.path)
		assert.Equal(t, c.want, body, c.path)
	}
	res, _, err := ask(t, "GET", server.URL+"/things/by-slug/logs", "")
	require.NoError(t, err)
	assert.Equal(t, "/things/by-slug/{slug}", res.Header.Get("X-Resource"))
	res, _, err = ask(t, "GET", server.URL+"/stream", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, res.Header.Values("X-Two"))
	res, _, err = ask(t, "GET", server.URL+"/nothing", "")
	require.NoError(t, err)
	assert.Len(t, res.Header.Get("X-Request-Id"), 26)
	assert.Equal(t, "it", res.Header.Get("X-Fixed"))
}

// TestIncompleteResponsesAreAborted: a client must not take half a response, or
// one in the wrong form, for a complete one.
func TestIncompleteResponsesAreAborted(t *testing.T) {
	t.Parallel()
	server := open(t)
	for _, path := range []string{"/cut", "/wrong"} {
		_, _, err := ask(t, "GET", server.URL+path, "")
		assert.Error(t, err, path)
	}
}
