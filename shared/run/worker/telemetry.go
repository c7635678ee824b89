package worker

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/events"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
)

// about makes ctx one whose work is about the session's run. trace is the
// traceparent that a message brought; without one the run's own is taken as soon
// as it is read.
func (s *session) about(ctx context.Context, trace string) context.Context {
	s.subject = telemetry.From(ctx)
	s.subject.Workspace, s.subject.Run = s.org, s.id
	s.traced(trace)
	return telemetry.With(ctx, &s.subject)
}

// traced notes the run's trace, unless it is known. An attempt may be under way:
// a message of a reconciliation that found a worker lost need not bring it.
func (s *session) traced(trace string) {
	if s.trace.IsZero() && trace != "" {
		s.trace, _ = telemetry.ParseTrace(trace)
		s.subject.Trace = s.trace
		if s.attempt != nil {
			s.subject.Trace = s.span(s.attempt)
		}
	}
}

// working makes an attempt what the session is about: what is logged from now
// on is about it, in the span that the task itself gets as its parent. Attempts
// of a session come one after the other, so nobody reads the subject meanwhile.
func (s *session) working(w *attempt) {
	s.attempt = w
	s.subject.Task, s.subject.Attempt = w.task.Name, w.item.Attempt
	s.subject.Trace = s.span(w)
}

// span is an attempt's span in the run's trace.
func (s *session) span(w *attempt) telemetry.Trace {
	return s.trace.Span(s.attemptID(w))
}

// tier is what metrics are told apart by.
func (s *session) tier() telemetry.Dimensions { return telemetry.Dimensions{Tier: s.mode()} }

// countTask counts a task or instance that is over.
func (s *session) countTask(status engine.Status) {
	s.Metrics.Count(telemetry.TasksFinished, telemetry.Dimensions{Tier: s.mode(), Outcome: string(status)})
}

// handled logs and measures a message that was dealt with.
func (s *session) handled(ctx context.Context, m events.Run, deliveries int, took time.Duration, err error) {
	code := ""
	if err != nil {
		code = string(errs.CodeOf(err))
	}
	s.Metrics.Call(s.subject.Function, took, code)
	level, text := slog.LevelDebug, "message handled"
	if err != nil {
		level, text = slog.LevelError, "message failed"
	}
	if !s.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("kind", m.Kind), slog.Int("node", m.Node), slog.Int("deliveries", deliveries),
		slog.Float64("duration_ms", telemetry.Milliseconds(took)),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.Log.LogAttrs(ctx, level, text, attrs...)
}

// waited measures how long a message waited for a worker. Later deliveries say
// nothing of that: they waited for a time-out.
func (s *session) waited(m lambda.SQSMessage, run events.Run, deliveries int, now time.Time) {
	sent, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
	if s.Metrics == nil || err != nil || deliveries != 1 || run.Kind == events.RunReconcile {
		return
	}
	wait := now.Sub(time.UnixMilli(sent)) - time.Duration(run.Delay)*time.Millisecond
	s.Metrics.Time(telemetry.QueueDelay, s.tier(), max(wait, 0))
}
