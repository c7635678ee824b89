package cloud

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/go-chi/chi/v5"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
	"millrace/shared/fn/gateway"
	"millrace/shared/httpapi"
	"millrace/shared/ids"
)

// Stage is the stage of the gateway.
const Stage = "v1"

// streamType is the content type by which a function says that it answers in
// the streaming form.
const streamType = "application/vnd.awslambda.http-integration-response"

// gateway routes each operation to its function, and answers 403 for the rest
// as API Gateway does.
func (c *Cloud) gateway() http.Handler {
	ops := catalog.Operations(c.specs)
	byFunction := map[string][]httpapi.Operation{}
	for _, op := range ops {
		byFunction[op.Function] = append(byFunction[op.Function], op.Operation)
	}
	router := chi.NewMux()
	for _, op := range ops {
		streams := gateway.Streams(byFunction[op.Function])
		router.Method(op.Method, op.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := c.proxy(w, r, op, streams); err != nil {
				c.t.Logf("%s %s: %v", r.Method, r.URL.Path, err)
				panic(http.ErrAbortHandler)
			}
		}))
	}
	router.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"Missing Authentication Token"}`, http.StatusForbidden)
	})
	return router
}

// ProxyEvent is the event that API Gateway makes of a request with a resource.
func ProxyEvent(r *http.Request, resource string) (events.APIGatewayProxyRequest, error) {
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
			AccountID: "000000000000", APIID: "test", Stage: Stage, ResourcePath: resource, HTTPMethod: r.Method,
			Path: "/" + Stage + r.URL.EscapedPath(), RequestID: ids.New(time.Now()), DomainName: "api.test",
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

// proxy answers a request by its function.
func (c *Cloud) proxy(w http.ResponseWriter, r *http.Request, op catalog.Operation, streams bool) error {
	event, err := ProxyEvent(r, op.Path)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	answer, err := c.Invoke(r.Context(), op.Function, payload)
	if err != nil {
		var fault *runtimeapi.Fault
		if errors.As(err, &fault) {
			http.Error(w, `{"message":"Internal server error"}`, http.StatusBadGateway)
			return nil
		}
		return err
	}
	defer answer.Body.Close()
	if streamed := answer.ContentType == streamType; streamed != streams {
		return fmt.Errorf("%s answers as a stream: %v, its operations say %v", op.Function, streamed, streams)
	}
	if streams {
		return stream(w, answer.Body)
	}
	return whole(w, answer.Body)
}

// whole answers with a function's proxy response.
func whole(w http.ResponseWriter, answer io.Reader) error {
	var res events.APIGatewayProxyResponse
	if err := json.NewDecoder(answer).Decode(&res); err != nil {
		return fmt.Errorf("proxy response: %w", err)
	}
	body := []byte(res.Body)
	if res.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(res.Body); err != nil {
			return err
		}
	}
	head(w, res.StatusCode, res.MultiValueHeaders)
	_, _ = w.Write(body) // the client may be gone
	return nil
}

// delimiter stands between the prelude of a streamed answer and its body.
var delimiter = make([]byte, 8)

// stream hands a streamed answer on as it comes.
func stream(w http.ResponseWriter, answer io.Reader) error {
	in := bufio.NewReader(answer)
	var prelude []byte
	for !bytes.HasSuffix(prelude, delimiter) {
		b, err := in.ReadByte()
		if err != nil {
			return fmt.Errorf("prelude %q: %w", prelude, err)
		}
		prelude = append(prelude, b)
	}
	var res events.APIGatewayProxyResponse
	if err := json.Unmarshal(bytes.TrimSuffix(prelude, delimiter), &res); err != nil {
		return fmt.Errorf("prelude: %w", err)
	}
	head(w, res.StatusCode, res.MultiValueHeaders)
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			_ = http.NewResponseController(w).Flush() // the server's writer can
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func head(w http.ResponseWriter, status int, header map[string][]string) {
	for name, values := range header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(status)
}
