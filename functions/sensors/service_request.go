package sensors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"millrace/shared/kit/outbound"
)

const (
	// maxTimeout is the longest time-out of a request, less than that of the
	// function.
	maxTimeout = 30 * time.Second
	// maxTestTimeout is that of a test, whose caller waits.
	maxTestTimeout = 20 * time.Second
	// maxResponse is the largest response that is read. More is an error.
	maxResponse = 1 << 20
	// maxReason bounds the reason of a failed poll, which may quote a response that
	// is not HTTP, or many invalid parameters.
	maxReason = 500
)

// response is what a request for a polling sensor resulted in.
type response struct {
	status  int    // HTTP status; 0: there was no response
	matches bool   // a run is to be started
	reason  string // why it does not match
	failed  bool   // the reason is an error: there was no complete response, or not the JSON that it must be
}

// ask makes one request for a sensor. The response is neither stored nor logged.
func (s *service) ask(ctx context.Context, c *Config, most time.Duration) response {
	limit := min(c.timeout(), most)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := s.exchange(ctx, c)
	switch {
	case err == nil:
		return out
	case outbound.Denied(err):
		out.reason = "url leads to an address that sensors may not reach"
		if s.help != "" {
			out.reason += ": " + s.help
		}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.reason = fmt.Sprintf("there was no complete response within %d seconds", int(limit.Seconds()))
	case errors.Is(err, errInvalidJSON), errors.Is(err, errTooLarge):
		out.reason = err.Error()
	default:
		out.reason = "the request failed: " + shorten(outbound.Cause(err))
	}
	out.failed = true
	return out
}

var errTooLarge = fmt.Errorf("the response has more than %d bytes", maxResponse)

// exchange sends the request and judges the response. With an error, only its
// status is set.
func (s *service) exchange(ctx context.Context, c *Config) (out response, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text(c.URL), nil)
	if err != nil {
		return out, err
	}
	req.Header.Set("User-Agent", "millrace")
	for name, value := range c.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	rule := c.match()
	client := s.client
	if rule.status != 0 {
		client = outbound.KeepRedirects(client, rule.ok)
	}
	res, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	out.status = res.StatusCode
	if !rule.ok(res.StatusCode) {
		out.reason = fmt.Sprintf("the response has the status %d", res.StatusCode)
		return out, nil
	}
	if !rule.selects() && !isJSON(res) {
		out.matches = true
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil:
		return out, err
	case len(body) > maxResponse:
		return out, errTooLarge
	case len(body) == 0 && !rule.selects(): // such as with status 204
		out.matches = true
		return out, nil
	}
	out.reason, err = rule.check(body)
	out.matches = err == nil && out.reason == ""
	return out, err
}

// isJSON reports whether a response says that it is JSON.
func isJSON(res *http.Response) bool {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// shorten returns a reason as one line of at most maxReason bytes.
func shorten(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\ufffd")
	if len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "…"
}
