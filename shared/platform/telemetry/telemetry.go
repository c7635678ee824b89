// Package telemetry provides the service's observability: the subject of the
// current work, which is in the context and on every log line; the logger; W3C
// trace context; and metrics, which deployed functions write in CloudWatch's
// embedded metric format and the embedded server shows as totals.
package telemetry

import (
	"context"
	"log/slog"
)

// Subject describes the current work. Empty fields are not known, or not yet.
type Subject struct {
	Function   string // the executing function, e.g. "runs"
	Invocation string // the Lambda request id
	ColdStart  bool   // the first invocation of its environment
	RequestID  string // of the HTTP request
	Operation  string // id of the requested operation, e.g. "runs-create"
	Workspace  string // org_id
	Run        string
	Task       string // name
	Attempt    int    // 1 for the first
	Trace      Trace
}

type subjectKey struct{}

// With returns a context whose subject is s. It keeps the pointer, so that
// fields can be filled in later, as long as no other goroutine uses the
// context.
func With(ctx context.Context, s *Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// From returns the context's subject as far as it is known.
func From(ctx context.Context) Subject {
	if s := of(ctx); s != nil {
		return *s
	}
	return Subject{}
}

// Workspace returns the org_id of the context's subject, "" if it is not known.
func Workspace(ctx context.Context) string {
	if s := of(ctx); s != nil {
		return s.Workspace // does not copy the subject: its trace may be set concurrently
	}
	return ""
}

func of(ctx context.Context) *Subject {
	s, _ := ctx.Value(subjectKey{}).(*Subject)
	return s
}

// attrs returns the known fields under the names that logs and metrics share.
func (s *Subject) attrs() []slog.Attr {
	out := make([]slog.Attr, 0, 11)
	text := func(name, value string) {
		if value != "" {
			out = append(out, slog.String(name, value))
		}
	}
	text("function", s.Function)
	text("aws_request_id", s.Invocation)
	if s.ColdStart {
		out = append(out, slog.Bool("cold_start", true))
	}
	text("request_id", s.RequestID)
	text("operation", s.Operation)
	text("org_id", s.Workspace)
	text("run_id", s.Run)
	text("task", s.Task)
	if s.Attempt != 0 {
		out = append(out, slog.Int("attempt", s.Attempt))
	}
	if !s.Trace.IsZero() {
		out = append(out, slog.String("trace_id", s.Trace.TraceID()), slog.String("span_id", s.Trace.SpanID()))
	}
	return out
}
