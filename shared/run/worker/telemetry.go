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

// about returns a context for work on the session's run. trace is the
// traceparent of the message. Without one the run's own is used as soon as the
// run is read.
func (s *session) about(ctx context.Context, trace string) context.Context {
	s.subject = telemetry.From(ctx)
	s.subject.Workspace, s.subject.Run = s.org, s.id
	s.traced(trace)
	return telemetry.With(ctx, &s.subject)
}

// traced sets the run's trace unless it is known. There may be a current
// attempt already, because a reconciliation's message for a lost worker's task
// may have no trace.
func (s *session) traced(trace string) {
	if s.trace.IsZero() && trace != "" {
		s.trace, _ = telemetry.ParseTrace(trace)
		s.subject.Trace = s.trace
		if s.attempt != nil {
			s.subject.Trace = s.span(s.attempt)
		}
	}
}

// working makes an attempt the session's subject: all later log entries refer
// to it, in the span that the task gets as its parent. The attempts of a
// session are sequential, so nothing reads the subject concurrently.
func (s *session) working(w *attempt) {
	s.attempt = w
	s.subject.Task, s.subject.Attempt = w.task.Name, w.item.Attempt
	s.subject.Trace = s.span(w)
}

// span returns an attempt's span in the run's trace.
func (s *session) span(w *attempt) telemetry.Trace {
	return s.trace.Span(s.attemptID(w))
}

// tier returns the dimensions of metrics.
func (s *session) tier() telemetry.Dimensions { return telemetry.Dimensions{Tier: s.mode()} }

// countTask counts a finished task or instance.
func (s *session) countTask(status engine.Status) {
	s.Metrics.Count(telemetry.TasksFinished, telemetry.Dimensions{Tier: s.mode(), Outcome: string(status)})
}

// lostRunner counts and logs a runner that ended without a result, or could not
// begin. There may be no other trace of it: the sandbox's functions write no
// log. The tasks' own failures are not among them.
func (s *session) lostRunner(ctx context.Context, w *attempt, reason string) {
	tier := s.run.TierOf(w.task.Tier)
	s.Metrics.Count(telemetry.SandboxLost, telemetry.Dimensions{Tier: tier})
	s.Log.WarnContext(ctx, "runner ended without a result", "tier", tier, "node", w.node, "number", w.item.Attempt, "reason", clip(reason))
}

// handled logs and measures a handled message.
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

// waited measures how long a message waited for a worker. Later deliveries are
// not measured: they waited for a time-out.
func (s *session) waited(m lambda.SQSMessage, run events.Run, deliveries int, now time.Time) {
	sent, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
	if s.Metrics == nil || err != nil || deliveries != 1 || run.Kind == events.RunReconcile {
		return
	}
	wait := now.Sub(time.UnixMilli(sent)) - time.Duration(run.Delay)*time.Millisecond
	s.Metrics.Time(telemetry.QueueDelay, s.tier(), max(wait, 0))
}
