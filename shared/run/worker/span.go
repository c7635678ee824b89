package worker

import (
	"context"
	"log/slog"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// A run's spans, below that of its acceptance: the run, below it each attempt,
// below that the call of its executor. Their ids follow from the run's trace and
// their names, so that no process has to tell another. What a task traces itself
// is below its attempt. A span is added when its work ends; work that is
// repeated after a crash may add it twice, with one id.

// runTrace returns the trace that the run was accepted in. The trace of the
// session may be that of a request to cancel the run.
func (s *session) runTrace(ctx context.Context) (telemetry.Trace, bool) {
	if s.Spans == nil || s.run == nil {
		return telemetry.Trace{}, false
	}
	in, err := s.inputs(ctx)
	if err != nil {
		return telemetry.Trace{}, false
	}
	return telemetry.ParseTrace(in.Trace)
}

// runSpan adds the span of a run that has ended.
func (s *session) runSpan(ctx context.Context) {
	trace, ok := s.runTrace(ctx)
	if !ok {
		return
	}
	span := telemetry.Span{
		Trace: trace.Span(s.id), Parent: trace, Name: "run " + s.run.Flow, Kind: telemetry.Internal,
		Start: s.run.CreatedAt.Time(), End: s.Clock.Now(),
		Attrs: append(s.run.SpanAttrs(), slog.String("millrace.status", string(s.run.Status))),
	}
	if s.run.Status != engine.Succeeded {
		span.Error = string(s.run.Status)
	}
	s.Spans.Add(span)
}

// attemptSpan adds the span of an attempt that a worker ended by a status: not
// that of one which is released or suspended.
func (s *session) attemptSpan(ctx context.Context, w *attempt, item *runstate.Node, to engine.Status) {
	switch {
	case to.Terminal():
		s.endSpan(ctx, w, to, item.ErrorType, item.StartedAt)
	case to == engine.Retrying && len(item.History) > 0:
		last := item.History[len(item.History)-1]
		s.endSpan(ctx, w, last.Status, last.ErrorType, last.StartedAt)
	}
}

// endSpan adds the span of an attempt that has ended.
func (s *session) endSpan(ctx context.Context, w *attempt, status engine.Status, fault string, started clock.Millis) {
	trace, ok := s.runTrace(ctx)
	if !ok || w.task == nil {
		return
	}
	now := s.Clock.Now()
	if started == 0 {
		started = millis(now)
	}
	span := telemetry.Span{
		Trace: trace.Span(s.attemptID(w)), Parent: trace.Span(s.id), Name: "task " + w.task.Name, Kind: telemetry.Internal,
		Start: started.Time(), End: now, Attrs: append(s.taskAttrs(w), slog.String("millrace.status", string(status))),
	}
	if status != engine.Succeeded && status != engine.Skipped {
		if span.Error = fault; fault == "" {
			span.Error = string(status)
		}
	}
	s.Spans.Add(span)
}

// callSpan adds the span of the executor's work on an attempt.
func (s *session) callSpan(ctx context.Context, w *attempt, began time.Time) {
	trace, ok := s.runTrace(ctx)
	if !ok {
		return
	}
	own := trace.Span(s.attemptID(w))
	s.Spans.Add(telemetry.Span{
		Trace: trace.Span(s.attemptID(w) + "/call"), Parent: own, Name: "execute " + w.task.Type, Kind: telemetry.Internal,
		Start: began, End: s.Clock.Now(), Attrs: s.taskAttrs(w),
	})
}

// taskAttrs are the attributes of an attempt's spans.
func (s *session) taskAttrs(w *attempt) []slog.Attr {
	return append(s.run.SpanAttrs(),
		slog.String("millrace.task", w.task.Name), slog.String("millrace.task_type", w.task.Type),
		slog.String("millrace.tier", s.run.TierOf(w.task.Tier)),
		slog.String("millrace.task_run_id", s.attemptID(w)), slog.Int("millrace.attempt", w.item.Attempt))
}
