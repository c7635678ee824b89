package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
)

const (
	// traceTimeout bounds the write of a trace. The response waits for it, because
	// a function is frozen after its response.
	traceTimeout = 2 * time.Second
	// noOrg stands for the workspace in the key of a trace without one.
	noOrg = "-"
)

// Trace is an exception trace. [TraceKey] is the key under which it is stored.
type Trace struct {
	Timestamp        string         `json:"timestamp"`
	RequestID        string         `json:"request_id"`
	FunctionName     string         `json:"function_name"`
	ExceptionType    string         `json:"exception_type"`
	ExceptionMessage string         `json:"exception_message"`
	Traceback        string         `json:"traceback"`
	HTTPMethod       string         `json:"http_method"`
	HTTPPath         string         `json:"http_path"`
	OrgID            string         `json:"org_id"`
	Event            map[string]any `json:"event"` // the request without credentials and body
}

// TraceFolder is the folder of traces in the object store.
const TraceFolder = "exceptions"

// TracePrefix is the prefix of the keys of all traces. They do not stand with
// the objects of their workspaces, so that the platform's administrators can
// list them, and one rule of the bucket lets them expire.
const TracePrefix = "_platform/" + TraceFolder + "/"

// TraceDays is how many days traces are kept.
const TraceDays = 30

// lastMilli is the largest time of 13 digits in milliseconds.
const lastMilli = 9_999_999_999_999

// TraceKey returns the key of a trace, given the workspace of the request, ""
// for none, and its id:
//
//	_platform/exceptions/<descending time>/<org or ->/<request id>.json
//
// In order of keys the newest trace comes first.
func TraceKey(at time.Time, org, requestID string) string {
	return TracesBefore(at) + "/" + cmp.Or(org, noOrg) + "/" + requestID + ".json"
}

// TracesBefore returns a key that sorts before those of traces of that time or
// earlier, and after those of later ones.
func TracesBefore(at time.Time) string {
	return fmt.Sprintf("%s%013d", TracePrefix, lastMilli-min(max(at.UnixMilli(), 0), lastMilli))
}

// ParseTraceKey returns the workspace, "" for none, and the request id in the
// key of a trace. ok is false for any other key.
func ParseTraceKey(key string) (org, requestID string, ok bool) {
	rest, ok := strings.CutPrefix(key, TracePrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return "", "", false
	}
	requestID, ok = strings.CutSuffix(parts[2], ".json")
	if org = parts[1]; org == noOrg {
		org = ""
	}
	return org, requestID, ok && requestID != "" && len(parts[0]) == 13
}

// report logs a failure of the service once for each request, and stores its
// trace. If the trace cannot be stored, it only logs that.
func (a *API) report(ctx context.Context, c *call, err error) {
	if c.reported {
		return
	}
	c.reported = true
	now := a.config.Clock.Now()
	kind, traceback := anatomy(err)
	a.config.Log.LogAttrs(ctx, slog.LevelError, "request failed",
		slog.String("exception_type", kind), slog.String("error", err.Error()), slog.String("traceback", traceback))
	if a.config.Traces == nil {
		return
	}
	trace := Trace{
		Timestamp: clock.Format(now), RequestID: c.request.ID, ExceptionType: kind,
		ExceptionMessage: withoutCredentials(err.Error()), Traceback: withoutCredentials(traceback), HTTPMethod: c.request.Method,
		HTTPPath: c.publicPath(), OrgID: c.principal.OrgID, Event: c.event(c.http),
	}
	if c.op != nil {
		trace.FunctionName = c.op.Function
	}
	data, err := json.Marshal(trace, json.Deterministic(true))
	if err == nil {
		stored, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceTimeout)
		defer cancel()
		key := TraceKey(now, c.principal.OrgID, c.request.ID)
		_, err = blob.PutBytes(stored, a.config.Traces, key, data, blob.PutOptions{ContentType: "application/json"})
	}
	if err != nil {
		a.config.Log.LogAttrs(ctx, slog.LevelError, "exception trace was not stored", slog.String("error", err.Error()))
	}
}

// anatomy returns the innermost type of an error, and its chain or the stack of
// a panic.
func anatomy(err error) (kind, traceback string) {
	if p, ok := errors.AsType[*panicError](err); ok {
		kind = fmt.Sprintf("%T", p.value)
		return kind, string(p.stack)
	}
	var lines []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		kind = fmt.Sprintf("%T", e)
		lines = append(lines, kind+": "+e.Error())
	}
	return kind, strings.Join(lines, "\n")
}

// publicPath returns the raw path without parameters that are credentials.
func (c *call) publicPath() string {
	if c.op == nil {
		return ""
	}
	pattern, raw := strings.Split(c.op.Path, "/"), strings.Split(c.rawPath, "/")
	if len(pattern) != len(raw) {
		return c.op.Path
	}
	for i, part := range pattern {
		if strings.HasPrefix(part, "{") && sensitive(part) {
			raw[i] = part
		}
	}
	return strings.Join(raw, "/")
}

// event describes the request for its trace, without credentials and body.
func (c *call) event(r *http.Request) map[string]any {
	headers := map[string]string{}
	for name, values := range r.Header {
		if !sensitive(name) {
			headers[name] = clip(strings.Join(values, ", "))
		}
	}
	query := map[string]string{}
	parsed, _ := url.ParseQuery(r.URL.RawQuery) // unparsable parts are omitted
	for name, values := range parsed {
		query[name] = "***"
		if !sensitive(name) {
			query[name] = clip(strings.Join(values, ","))
		}
	}
	return map[string]any{
		"route": c.request.Path, "headers": headers, "query": query,
		"source_ip": c.request.IP, "user_agent": c.request.UserAgent, "body_bytes": c.size,
		"actor": c.principal.Actor(),
	}
}

// credentials matches credentials in the text of errors: API keys, tokens of webhooks, JWTs, bearer
// credentials, passwords in URLs, and values of names that suggest one.
var credentials = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)svc_[0-9a-z]{8,}|whk_[\w-]{8,}|eyJ[\w-]+\.[\w-]+\.[\w-]*|\bbearer\s+[^\s"',;]+|://[^\s/@:]*:[^\s/@]+@` +
		`|[\w-]*(?:password|passwd|secret|token|signature|credential|api[_-]?key)["']?\s*[=:]\s*(?:"[^"]*"|'[^']*'|[^\s&"',;}\]]+)`)
})

// withoutCredentials replaces credentials in a text by "***".
func withoutCredentials(text string) string { return credentials().ReplaceAllString(text, "***") }

// sensitive reports whether a name suggests a credential.
func sensitive(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "cookie", "token", "secret", "password", "signature", "credential", "api-key", "api_key", "apikey", "code"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
