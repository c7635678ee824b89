// Package telemetry is how the service tells what it does: the subject of the
// work at hand, which travels in the context and stands on every log line; the
// logger that writes such lines; W3C trace context; and metrics, which deployed
// functions write as CloudWatch's embedded metric format and the embedded server
// shows as totals.
package telemetry

import (
	"context"
	"log/slog"
)

// Subject is what the work at hand is about. Empty fields are not known, or not
// yet.
type Subject struct {
	Function   string // that does the work, e.g. "runs"
	Invocation string // the Lambda request id
	ColdStart  bool   // the first invocation of its environment
	RequestID  string // of the HTTP request
	Operation  string // the id of what was requested, e.g. "runs-create"
	Workspace  string // org_id
	Run        string
	Task       string // name
	Attempt    int    // 1 for the first
	Trace      Trace
}

type subjectKey struct{}

// With returns a context whose work is about s. It keeps the pointer, so that
// more can be filled in as it becomes known: only while nobody else uses the
// context.
func With(ctx context.Context, s *Subject) context.Context {
	return context.WithValue(ctx, subjectKey{}, s)
}

// From returns what the context's work is about, as far as it is known.
func From(ctx context.Context) Subject {
	if s := of(ctx); s != nil {
		return *s
	}
	return Subject{}
}

// Workspace is the org_id of what the context's work is about; empty if it is not
// known.
func Workspace(ctx context.Context) string {
	if s := of(ctx); s != nil {
		return s.Workspace // not a copy of all: a run's trace may become known meanwhile
	}
	return ""
}

func of(ctx context.Context) *Subject {
	s, _ := ctx.Value(subjectKey{}).(*Subject)
	return s
}

// attrs are the fields that are known, under the names that logs and metrics
// have in common.
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
