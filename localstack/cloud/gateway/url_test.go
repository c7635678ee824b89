package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/gateway"
	"millrace/localstack/runtimeapi"
)

func TestFunctionURL(t *testing.T) {
	t.Parallel()
	u := &gateway.URL{Open: true, Log: slog.New(slog.DiscardHandler), Invoke: func(_ context.Context, payload []byte) (*runtimeapi.Answer, error) {
		var e events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal(payload, &e); err != nil || e.RawPath == "/faulty" {
			return nil, &runtimeapi.Fault{Type: "E", Message: "secret cause"}
		}
		data, err := json.Marshal(events.APIGatewayV2HTTPResponse{
			StatusCode: 201, Headers: map[string]string{"X-Id": e.RequestContext.RequestID}, Cookies: []string{"c=3"}, IsBase64Encoded: e.IsBase64Encoded,
			Body: strings.Join([]string{e.RequestContext.HTTP.Method, e.RawPath, e.RawQueryString, e.Headers["authorization"], strings.Join(e.Cookies, "|"), e.Body}, " "),
		})
		if e.IsBase64Encoded {
			data, err = json.Marshal(events.APIGatewayV2HTTPResponse{StatusCode: 201, Body: e.Body, IsBase64Encoded: true})
		}
		return &runtimeapi.Answer{Body: io.NopCloser(bytes.NewReader(data))}, err
	}}
	call := func(path string, body string) (int, http.Header, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Cookie", "a=1; b=2")
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		return w.Code, w.Header(), w.Body.String()
	}
	status, header, body := call("/a%2Fb?q=1", "text")
	assert.Equal(t, 201, status)
	assert.Equal(t, "POST /a%2Fb q=1 Bearer t a=1|b=2 text", body)
	assert.Equal(t, "c=3", header.Get("Set-Cookie"))
	assert.Len(t, header.Get("X-Id"), 26)
	_, _, body = call("/a", "\xff\x00")
	assert.Equal(t, "\xff\x00", body)
	status, _, body = call("/faulty", "")
	assert.Equal(t, 502, status)
	assert.NotContains(t, body, "secret")
	status, _, _ = call("/a", strings.Repeat("x", 6<<20+1))
	assert.Equal(t, 413, status)
	u.Open = false
	status, _, body = call("/a", "text")
	require.Equal(t, 403, status)
	assert.JSONEq(t, `{"Message": "Forbidden"}`, body)
}
