package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"millrace/shared/kit/outbound"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/expr"
	"millrace/shared/run/sandbox"
)

// MaxResponse is the largest response body that an http task accepts.
const MaxResponse = 32 << 20

// HTTP calls config.url. Its output is {status, headers, body, json}.
type HTTP struct {
	Client *http.Client // from package outbound
	Help   string       // how to allow calls to a refused address; empty: it cannot be allowed
}

// Instant reports false.
func (HTTP) Instant() bool { return false }

// Execute makes the call. A response that is not 2xx fails the attempt unless
// config.expected_status lists its status.
func (h HTTP) Execute(ctx context.Context, a *Attempt) Result {
	return Masked(ctx, nil, a, h.execute)
}

func (h HTTP) execute(ctx context.Context, a *Attempt) Result {
	config, fail := a.config(ctx)
	if fail != nil {
		return *fail
	}
	if a.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Timeout)
		defer cancel()
	}
	req, err := request(ctx, config)
	if err != nil {
		return Final(HTTPFailed, "%v", err)
	}
	if _, own := req.Header[telemetry.TraceParent]; !own && !a.Trace.IsZero() {
		req.Header.Set(telemetry.TraceParent, a.Trace.String())
	}
	res, err := h.client(config["expected_status"]).Do(req)
	if err != nil {
		return h.callFailed(ctx, a, err)
	}
	defer res.Body.Close()
	body, err := read(ctx, a, res)
	if err != nil {
		return h.callFailed(ctx, a, err)
	}
	if len(body) > MaxResponse {
		return Failed(HTTPFailed, "the answer has more than %d bytes", MaxResponse)
	}
	a.Log(sandbox.LogEvent{
		Level: "info", Logger: "http",
		Message: fmt.Sprintf("%s %s answered %d, %d bytes", req.Method, redact(req.URL), res.StatusCode, len(body)),
	})
	if !expected(config["expected_status"], res.StatusCode) {
		return Failed(HTTPFailed, "%s %s answered %d: %s", req.Method, redact(req.URL), res.StatusCode, excerpt(a, body))
	}
	out, err := answer(res, body)
	if err != nil {
		return Final(Serialization, "%v", err)
	}
	return Result{Output: Value{JSON: out, Size: int64(len(out))}}
}

// client returns a client that does not follow redirects whose status the task
// expects.
func (h HTTP) client(expects any) *http.Client {
	if expects == nil {
		return h.Client
	}
	return outbound.KeepRedirects(h.Client, func(status int) bool { return expected(expects, status) })
}

func request(ctx context.Context, config map[string]any) (*http.Request, error) {
	method, _ := config["method"].(string)
	if method == "" {
		method = http.MethodGet
	}
	raw, _ := config["url"].(string)
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("config.url is not an absolute http or https URL")
	}
	var body io.Reader
	kind := ""
	if v, ok := config["json"]; ok {
		encoded, err := expr.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("config.json: %w", err)
		}
		body, kind = bytes.NewReader(encoded), "application/json"
	} else if v, ok := config["body"]; ok && v != nil {
		text, isText := v.(string)
		if !isText {
			return nil, errors.New("config.body must be a string")
		}
		body = strings.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	req.Header.Set("User-Agent", "millrace")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	headers, _ := config["headers"].(map[string]any)
	for name, v := range headers {
		if v == nil {
			continue
		}
		text, ok := v.(string)
		if !ok {
			encoded, err := expr.Encode(v)
			if err != nil {
				return nil, fmt.Errorf("config.headers.%s: %w", name, err)
			}
			text = string(encoded)
		}
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = text
			continue
		}
		req.Header.Set(name, text)
	}
	return req, nil
}

func (h HTTP) callFailed(ctx context.Context, a *Attempt, err error) Result {
	if outbound.Denied(err) {
		if h.Help != "" {
			return Final(HTTPFailed, "config.url leads to an address that flows may not reach: %s", h.Help)
		}
		return Final(HTTPFailed, "config.url leads to an address that flows may not reach")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return TimedOut(a.Task)
	}
	return Failed(HTTPFailed, "the call failed: %s", outbound.Cause(err))
}

func expected(want any, got int) bool {
	switch w := want.(type) {
	case nil:
		return got >= 200 && got <= 299
	case []any:
		return slices.ContainsFunc(w, func(v any) bool { return expected(v, got) })
	}
	n, ok := number(want)
	return ok && n == float64(got)
}

// smallAnswer is the number of bytes of a response that are read without
// reserving memory. answerFactor is the ratio of the memory that a larger
// response takes to its body: the body, its text and its JSON in the output,
// and the output again if it contains secrets.
const (
	smallAnswer  = 256 << 10
	answerFactor = 4
)

// read reads the body of a response, at most one byte more than MaxResponse.
func read(ctx context.Context, a *Attempt, res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, smallAnswer))
	if err != nil || len(body) < smallAnswer {
		return body, err
	}
	size := int64(MaxResponse)
	if res.ContentLength > 0 {
		size = min(size, res.ContentLength)
	}
	if a.Hold != nil { //guard:http/memory false
		if err := a.Hold(ctx, answerFactor*size); err != nil {
			return nil, err
		}
	}
	whole := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	whole.Write(body)
	_, err = whole.ReadFrom(io.LimitReader(res.Body, MaxResponse+1-smallAnswer))
	return whole.Bytes(), err
}

// answer returns the output of a call. A JSON body is copied without decoding
// it, which takes many times its size.
func answer(res *http.Response, body []byte) (json.RawMessage, error) {
	headers := make(map[string]any, len(res.Header))
	for name, values := range res.Header {
		if name == "Set-Cookie" {
			continue // a credential of the session, not part of the result
		}
		headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
	}
	told, err := expr.Encode(headers)
	if err != nil {
		return nil, err
	}
	document := json.RawMessage("null")
	if strings.Contains(strings.ToLower(res.Header.Get("Content-Type")), "json") && expr.Valid(body) {
		document = body
	}
	out := make([]byte, 0, 2*len(body)+len(body)/8+len(told)+64)
	out = append(out, `{"body":`...)
	out, _ = jsontext.AppendQuote(out, body) // AppendQuote replaces invalid UTF-8
	out = append(append(out, `,"headers":`...), told...)
	out = append(append(out, `,"json":`...), document...)
	return fmt.Appendf(out, `,"status":%d}`, res.StatusCode), nil
}

// redact returns a URL without the parts that may contain credentials.
func redact(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// excerpt returns the beginning of a response. Secrets are masked before it is
// truncated, because a part of one could remain otherwise.
func excerpt(a *Attempt, body []byte) string {
	const most, window = 300, 64 << 10
	text := a.hidden.String(strings.ToValidUTF8(string(body[:min(len(body), window)]), "\ufffd"))
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
