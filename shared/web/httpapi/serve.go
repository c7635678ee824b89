package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/telemetry"
)

// frame wraps every request: id, headers, panics, access log.
func (a *API) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := a.config.Clock.Now()
		r, slash := withoutSlash(r)
		c := &call{rawPath: r.URL.Path, slash: slash}
		c.request = Request{
			ID: requestID(r, start), IP: a.clientIP(r), Method: r.Method,
			UserAgent: clip(strings.ToValidUTF8(r.UserAgent(), "")), Start: start,
		}
		rec := &recorder{ResponseWriter: w}
		header := rec.Header()
		header["X-Request-Id"] = []string{c.request.ID}
		header["X-Content-Type-Options"] = []string{"nosniff"}
		header["Cache-Control"] = []string{"no-store"}
		c.subject = telemetry.From(r.Context())
		c.subject.RequestID = c.request.ID
		c.subject.Trace, c.parent = traceOf(r)
		header[telemetry.TraceResponse] = []string{c.subject.Trace.String()}
		r = r.WithContext(telemetry.With(context.WithValue(r.Context(), callKey{}, c), &c.subject))
		c.http = r
		defer a.finishCall(rec, r, c)
		next.ServeHTTP(rec, r)
	})
}

// requestID returns the id that the gateway put in the context, otherwise a new
// one.
func requestID(r *http.Request, start time.Time) string {
	if id := tenant.RequestFrom(r.Context()).ID; id != "" {
		return id
	}
	return ids.New(start)
}

// noFunction is the function of a request without a route in metrics.
const noFunction = "none"

// traceOf returns the request's span and its parent in the trace of its header,
// or, if there is none or more than one, the root of a new trace.
func traceOf(r *http.Request) (own, parent telemetry.Trace) {
	if sent := r.Header[telemetry.TraceParent]; len(sent) == 1 {
		if trace, ok := telemetry.ParseTrace(sent[0]); ok {
			return trace.Child(), trace
		}
	}
	return telemetry.NewTrace(), telemetry.Trace{}
}

// finishCall recovers a panic, and logs and measures the request.
func (a *API) finishCall(rec *recorder, r *http.Request, c *call) {
	cause := recover()
	aborted := false
	if err, ok := cause.(error); ok {
		aborted = errors.Is(err, http.ErrAbortHandler)
	}
	if cause != nil && !aborted {
		err, ok := cause.(*panicError) // from another goroutine
		if !ok {
			err = &panicError{value: cause, stack: debug.Stack()}
		}
		a.report(r.Context(), c, err)
		if !rec.wrote {
			rec.status = 0
			toAnswer(errs.New(errs.Internal, "")).write(rec)
			cause = nil
		}
	}
	rec.flushHeader()
	rec.deliver()
	a.log(r, c, rec.status)
	if cause != nil {
		panic(http.ErrAbortHandler) // the response has begun: abort it, so that the client does not take it for complete
	}
}

// log writes the canonical line of a request and measures it.
func (a *API) log(r *http.Request, c *call, status int) {
	ctx := r.Context()
	took := a.config.Clock.Now().Sub(c.request.Start)
	gone := ctx.Err() != nil && !c.reported
	level := slog.LevelInfo
	if status >= http.StatusInternalServerError && !gone {
		level = slog.LevelError
	}
	code := ""
	if status >= http.StatusBadRequest && !gone {
		code = codeOf(status)
	}
	if quiet := c.op != nil && c.op.Quiet && code == ""; !quiet {
		a.config.Metrics.Call(cmp.Or(c.subject.Function, noFunction), took, code)
	} else if level == slog.LevelInfo {
		level = slog.LevelDebug
	}
	a.span(c, status, took)
	if !a.config.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", c.request.Method),
		slog.String("route", c.request.Path),
		slog.Int("status", status),
		slog.Float64("duration_ms", telemetry.Milliseconds(took)),
	}
	if ctx.Err() != nil {
		attrs = append(attrs, slog.Bool("client_gone", true))
	}
	if c.failure != nil && !c.reported {
		attrs = append(attrs, slog.String("error", c.failure.Error()))
	}
	a.config.Log.LogAttrs(ctx, level, "request", attrs...)
}

// span adds the request's span.
func (a *API) span(c *call, status int, took time.Duration) {
	if a.config.Spans == nil {
		return
	}
	s := telemetry.Span{
		Trace: c.subject.Trace, Parent: c.parent, Kind: telemetry.Server, Start: c.request.Start, End: c.request.Start.Add(took),
		Name: strings.TrimSpace(c.request.Method + " " + c.request.Path), // the route's, not the request's
		Attrs: []slog.Attr{
			slog.String("http.request.method", c.request.Method), slog.String("http.route", c.request.Path),
			slog.Int("http.response.status_code", status), slog.String("faas.name", c.subject.Function),
			slog.String("millrace.operation", c.subject.Operation), slog.String("millrace.org_id", c.subject.Workspace),
			slog.String("millrace.request_id", c.request.ID),
		},
	}
	if status >= http.StatusInternalServerError {
		s.Error = codeOf(status)
	}
	a.config.Spans.Add(s)
}

// clientIP returns the client's address without port: the connection's, or the
// one that our proxy appended to X-Forwarded-For.
func (a *API) clientIP(r *http.Request) string {
	addr := r.RemoteAddr
	if a.config.TrustForwarded {
		if values := r.Header.Values("X-Forwarded-For"); len(values) > 0 {
			last := values[len(values)-1]
			if _, tail, ok := cutLast(last, ","); ok {
				last = tail
			}
			if forwarded := strings.TrimSpace(last); net.ParseIP(forwarded) != nil {
				addr = forwarded
			}
		}
	}
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	return strings.Trim(addr, "[]")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// panicError is a panic as an error.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprint(e.value) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// recorder records the status. It holds it back until the first byte, so that a
// response that cannot be encoded can still become a 500.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write sends the status, then the bytes.
func (r *recorder) Write(b []byte) (int, error) {
	r.flushHeader()
	return r.ResponseWriter.Write(b)
}

// Flush sends what was written so far.
func (r *recorder) Flush() {
	r.flushHeader()
	_ = http.NewResponseController(r.ResponseWriter).Flush() // the client may have disconnected
}

// Unwrap supports http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// deliver sends a whole response, so that neither the client nor what the request
// has made ready to run waits for the log.
func (r *recorder) deliver() {
	if r.Header().Get("Content-Length") == "" {
		return
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush() // the client may have disconnected
	runtime.Gosched()
}

func (r *recorder) flushHeader() {
	if r.wrote {
		return
	}
	r.wrote = true
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.ResponseWriter.WriteHeader(r.status)
}
