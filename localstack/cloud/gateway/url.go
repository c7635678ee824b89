package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/ids"
)

// maxURLBody is the largest request that a function's URL accepts, in bytes.
const maxURLBody = 6 << 20

// URL is the URL of a function.
type URL struct {
	Open   bool // everybody may invoke the function by it
	Invoke func(ctx context.Context, payload []byte) (*runtimeapi.Answer, error)
	Log    *slog.Logger
}

// ServeHTTP passes a request on in the payload format 2.0, and sends the
// function's response.
func (u *URL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !u.Open {
		message(w, http.StatusForbidden, "Forbidden")
		return
	}
	event, err := urlEvent(r, http.MaxBytesReader(w, r.Body, maxURLBody))
	if err != nil {
		message(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		return
	}
	payload, err := json.Marshal(event)
	if err == nil {
		err = u.answer(r.Context(), w, payload)
	}
	if err != nil {
		u.Log.Error("function failed", "method", r.Method, "path", r.URL.Path, "error", err)
		message(w, http.StatusBadGateway, "Internal Server Error")
	}
}

// answer sends the function's response to an event.
func (u *URL) answer(ctx context.Context, w http.ResponseWriter, payload []byte) error {
	answer, err := u.Invoke(ctx, payload)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var res events.APIGatewayV2HTTPResponse
	if err := json.NewDecoder(answer.Body).Decode(&res); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	body := []byte(res.Body)
	if res.IsBase64Encoded {
		if body, err = base64.StdEncoding.DecodeString(res.Body); err != nil {
			return err
		}
	}
	for name, value := range res.Headers {
		w.Header().Set(name, value)
	}
	for _, cookie := range res.Cookies {
		w.Header().Add("Set-Cookie", cookie)
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(body) // the client may have disconnected
	return nil
}

// urlEvent returns the event of a request. Headers of several values are joined
// by commas, their names are in lower case, and cookies are apart.
func urlEvent(r *http.Request, from io.Reader) (events.APIGatewayV2HTTPRequest, error) {
	body, err := io.ReadAll(from)
	if err != nil {
		return events.APIGatewayV2HTTPRequest{}, err
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return events.APIGatewayV2HTTPRequest{}, err
	}
	now := time.Now()
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Headers: map[string]string{},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: "$default", AccountID: "anonymous", Stage: "$default", RequestID: ids.New(now), DomainName: r.Host, TimeEpoch: now.UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, SourceIP: host, UserAgent: r.UserAgent(),
			},
		},
	}
	for name, values := range r.Header {
		if name == "Cookie" {
			e.Cookies = strings.Split(strings.Join(values, "; "), "; ")
			continue
		}
		e.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	if e.Body = string(body); !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e, nil
}

// message sends one of Lambda's own responses.
func message(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"Message": text}) // the client may have disconnected
}
