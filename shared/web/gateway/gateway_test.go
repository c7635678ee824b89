package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

type seen struct {
	ID   string `json:"id"`
	IP   string `json:"ip"`
	Name string `json:"name"`
	Word string `json:"word"`
	Text string `json:"text"`
}

type echoIn struct {
	Name    string `path:"name"`
	Word    string `query:"word"`
	RawBody []byte
}

// echo registers operations that return their request.
func echo(api *httpapi.API, _ fn.Deps) {
	httpapi.Register(api, httpapi.Operation{ID: "echo", Method: "POST", Path: "/v1/{name}", Function: "echo", Summary: "Echo", Access: tenant.Public},
		func(ctx context.Context, in *echoIn) (seen, error) {
			r := tenant.RequestFrom(ctx)
			return seen{r.ID, r.IP, in.Name, in.Word, string(in.RawBody)}, nil
		})
	httpapi.Register(api, httpapi.Operation{ID: "other", Method: "POST", Path: "/echo/{name}", Function: "echo", Summary: "Echo", Access: tenant.Public},
		func(ctx context.Context, in *echoIn) (seen, error) {
			r := tenant.RequestFrom(ctx)
			return seen{r.ID, r.IP, in.Name, in.Word, string(in.RawBody)}, nil
		})
}

// streaming registers a streaming operation, implemented by body.
func streaming(body func(ctx context.Context, w io.Writer)) func(*httpapi.API, fn.Deps) {
	return func(api *httpapi.API, _ fn.Deps) {
		httpapi.Register(api, httpapi.Operation{ID: "flow", Method: "GET", Path: "/flow", Function: "flow", Summary: "Stream", Access: tenant.Public},
			func(context.Context, *httpapi.None) (httpapi.Stream[any], error) {
				return httpapi.Parts[any](func(ctx context.Context, w http.ResponseWriter) error {
					body(ctx, w)
					return nil
				}), nil
			})
	}
}

func open(routes func(*httpapi.API, fn.Deps), after func()) *gateway.Function {
	frame := httpapi.Config{Title: "Millrace", Log: slog.New(slog.DiscardHandler), TrustForwarded: true}
	return gateway.New(fn.Spec{Name: "echo", Routes: routes}, frame, fn.Deps{}, after)
}

func event(resource, path string) events.APIGatewayProxyRequest {
	return events.APIGatewayProxyRequest{
		HTTPMethod: "POST", Resource: resource, Path: path, Body: "text",
		MultiValueHeaders:               map[string][]string{"Content-Type": {"text/plain"}, "X-Forwarded-For": {"203.0.113.9, 198.51.100.1"}},
		MultiValueQueryStringParameters: map[string][]string{"word": {"a b&c"}},
		RequestContext: events.APIGatewayProxyRequestContext{
			Stage: "v1", RequestID: "gateway-id", Identity: events.APIGatewayRequestIdentity{SourceIP: "2001:db8::1"},
		},
	}
}

func TestEventIsConvertedToRequest(t *testing.T) {
	t.Parallel()
	var after atomic.Int32
	f := open(echo, func() { after.Add(1) })
	require.False(t, f.Streams())
	for name, e := range map[string]events.APIGatewayProxyRequest{
		"plain":                     event("/echo/{name}", "/echo/x%2Fy"),
		"stage in the path":         event("/echo/{name}", "/v1/echo/x%2Fy"),
		"a resource like the stage": event("/v1/{name}", "/v1/x%2Fy"),
		"no resource":               event("", "/v1/echo/x%2Fy"),
	} {
		res, err := f.Answer(t.Context(), e)
		require.NoError(t, err, name)
		require.Equal(t, 200, res.StatusCode, "%s: %s", name, res.Body)
		var got seen
		require.NoError(t, json.Unmarshal([]byte(res.Body), &got))
		assert.Equal(t, seen{"gateway-id", "2001:db8::1", "x/y", "a b&c", "text"}, got, name)
		assert.Equal(t, []string{"gateway-id"}, res.MultiValueHeaders["X-Request-Id"])
	}
	assert.EqualValues(t, 4, after.Load())

	binary := event("/echo/{name}", "/echo/b")
	binary.Body, binary.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte("t\u00e9xt")), true
	res, err := f.Answer(t.Context(), binary)
	require.NoError(t, err)
	assert.Contains(t, res.Body, "t\u00e9xt")
}

// TestLargeResponseIsReplaced: Lambda fails an invocation whose response has
// more than 6 MB, and the client would get a 502.
func TestLargeResponseIsReplaced(t *testing.T) {
	t.Parallel()
	const most = 6 << 20
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"letters":         {strings.Repeat("x", most-4<<10), true},
		"too many":        {strings.Repeat("x", most), false},
		"quotes":          {strings.Repeat(`"`, most/4-4<<10), true}, // escaped in the body, and again around it
		"too many quotes": {strings.Repeat(`"`, most/3), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(func(api *httpapi.API, _ fn.Deps) {
				httpapi.Register(api, httpapi.Operation{ID: "large", Method: "GET", Path: "/flow", Function: "echo", Summary: "Large", Access: tenant.Public},
					func(context.Context, *httpapi.None) (string, error) { return c.text, nil })
			}, nil)
			res, err := f.Answer(t.Context(), get())
			require.NoError(t, err)
			data, err := json.Marshal(res)
			require.NoError(t, err)
			assert.LessOrEqual(t, len(data), most)
			if c.fits {
				assert.Equal(t, 200, res.StatusCode)
				return
			}
			assert.Equal(t, 413, res.StatusCode)
			assert.Equal(t, `{"detail":"The response would have more than 6 MB; ask for fewer items, with limit"}`, res.Body)
			assert.Equal(t, []string{"application/json"}, res.MultiValueHeaders["Content-Type"])
		})
	}
}

func TestInvalidRequestIsRejected(t *testing.T) {
	t.Parallel()
	f := open(echo, nil)
	res, err := f.Answer(t.Context(), event("/echo/{name}", "/echo/%zz"))
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	bad := event("/echo/{name}", "/echo/x")
	bad.IsBase64Encoded, bad.Body = true, "%"
	res, err = f.Answer(t.Context(), bad)
	require.NoError(t, err)
	assert.JSONEq(t, `{"detail": "The request is malformed"}`, res.Body)
	_, err = f.Answer(t.Context(), events.APIGatewayProxyRequest{})
	require.ErrorIs(t, err, gateway.ErrNotProxyEvent)
	_, err = open(streaming(nil), nil).Stream(t.Context(), events.APIGatewayProxyRequest{})
	require.ErrorIs(t, err, gateway.ErrNotProxyEvent)
}

func get() events.APIGatewayProxyRequest {
	return events.APIGatewayProxyRequest{HTTPMethod: "GET", Resource: "/flow", Path: "/flow"}
}

func TestStreamBeginsWithFirstFlushAndEndsAfterHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn, stored := make(chan struct{}), false
		f := open(streaming(func(_ context.Context, w io.Writer) {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			<-goOn
			_, _ = io.WriteString(w, `{"done":true}`)
		}), func() { stored = true })
		require.True(t, f.Streams())
		res, err := f.Stream(t.Context(), get())
		require.NoError(t, err)
		one := make([]byte, 512)
		var head string
		for !strings.HasSuffix(head, " ") {
			n, err := res.Read(one)
			require.NoError(t, err)
			head += string(one[:n])
		}
		prelude, rest, found := strings.Cut(head, strings.Repeat("\x00", 8))
		require.True(t, found)
		assert.Equal(t, " ", rest)
		assert.Contains(t, prelude, `"statusCode":200`)
		assert.Contains(t, prelude, `"Content-Type":["application/json"]`)
		assert.False(t, stored)
		close(goOn)
		tail, err := io.ReadAll(res)
		require.NoError(t, err)
		assert.JSONEq(t, `{"done": true}`, string(tail))
		assert.True(t, stored)
		require.NoError(t, res.Close())
	})
}

func TestAbortedStreamEndsWithError(t *testing.T) {
	t.Parallel()
	f := open(streaming(func(_ context.Context, w io.Writer) {
		_, _ = io.WriteString(w, `[1,`)
		w.(http.Flusher).Flush()
		panic("broken")
	}), nil)
	res, err := f.Stream(t.Context(), get())
	require.NoError(t, err)
	data, err := io.ReadAll(res)
	require.ErrorContains(t, err, "cut off")
	assert.True(t, strings.HasSuffix(string(data), `[1,`))
	require.NoError(t, res.Close())
}

func TestClosingStreamEndsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		f := open(streaming(func(ctx context.Context, w io.Writer) {
			_, _ = io.WriteString(w, `[1,`)
			w.(http.Flusher).Flush()
			<-ctx.Done()
			ended = true
		}), nil)
		res, err := f.Stream(t.Context(), get())
		require.NoError(t, err)
		require.NoError(t, res.Close())
		assert.True(t, ended, "Close waits")
	})
}

func TestErrorsOfStreamingFunctionAreStreamed(t *testing.T) {
	t.Parallel()
	f := open(streaming(nil), nil)
	e := get()
	e.Path, e.Resource = "/nothing", "/nothing"
	res, err := f.Stream(t.Context(), e)
	require.NoError(t, err)
	data, err := io.ReadAll(res)
	require.NoError(t, err)
	assert.Contains(t, string(data), `"statusCode":404`)
	assert.Contains(t, string(data), `{"detail":"Not Found"}`)
}

// TestStreamHasNoLength: the gateway frames what is streamed, also a response that
// is there as a whole.
func TestStreamHasNoLength(t *testing.T) {
	t.Parallel()
	f := open(func(api *httpapi.API, _ fn.Deps) {
		httpapi.Register(api, httpapi.Operation{ID: "flow", Method: "GET", Path: "/flow", Function: "flow", Summary: "Stream", Access: tenant.Public},
			func(context.Context, *httpapi.None) (httpapi.Stream[[]int], error) {
				return httpapi.Whole([]int{1, 2}), nil
			})
	}, nil)
	res, err := f.Stream(t.Context(), get())
	require.NoError(t, err)
	assert.NotEmpty(t, res.MultiValueHeaders["X-Request-Id"])
	assert.Empty(t, res.MultiValueHeaders["Content-Length"])
	data, err := io.ReadAll(res)
	require.NoError(t, err)
	assert.Contains(t, string(data), "[1,2]")
}

// urlEvent is an event of a function's URL as Lambda sends it.
const urlEvent = `{
	"version": "2.0", "routeKey": "$default", "rawPath": "/echo/x%2Fy", "rawQueryString": "word=a%20b%26c",
	"cookies": ["a=1", "b=2"], "headers": {"content-type": "text/plain", "x-forwarded-for": "203.0.113.9", "authorization": "Bearer a,b"},
	"requestContext": {
		"accountId": "anonymous", "apiId": "id", "domainName": "id.lambda-url.eu-west-1.on.aws", "requestId": "url-id", "stage": "$default",
		"http": {"method": "POST", "path": "/echo/x/y", "protocol": "HTTP/1.1", "sourceIp": "2001:db8::1", "userAgent": "python"}
	},
	"body": "dMOpeHQ=", "isBase64Encoded": true
}`

func TestURLEventIsConvertedToRequest(t *testing.T) {
	t.Parallel()
	f := open(echo, nil)
	var e events.APIGatewayV2HTTPRequest
	require.NoError(t, json.Unmarshal([]byte(urlEvent), &e))
	res, err := f.AnswerURL(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode, res.Body)
	var got seen
	require.NoError(t, json.Unmarshal([]byte(res.Body), &got))
	assert.Equal(t, seen{"url-id", "2001:db8::1", "x/y", "a b&c", "téxt"}, got)
	assert.Equal(t, "url-id", res.Headers["X-Request-Id"])

	broken := e
	broken.Body = "%"
	res, err = f.AnswerURL(t.Context(), broken)
	require.NoError(t, err)
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	assert.JSONEq(t, `{"detail": "The request is malformed"}`, res.Body)
	e.RawPath = "/nothing"
	res, err = f.AnswerURL(t.Context(), e)
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	_, err = f.AnswerURL(t.Context(), events.APIGatewayV2HTTPRequest{})
	require.ErrorIs(t, err, gateway.ErrNotURLEvent)
}
