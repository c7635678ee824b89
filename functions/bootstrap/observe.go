package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// observer provides a function's observability: JSON lines on standard output,
// including those of metrics, which are written once per invocation.
type observer struct {
	function string
	clock    clock.Clock
	metrics  *telemetry.Metrics
	units    table.Meter
	quiet    bool                              // the units consumed are not written
	warm     atomic.Bool                       // there was an invocation before
	current  atomic.Pointer[telemetry.Subject] // the current or last invocation
}

// begin returns the context of an invocation.
func (o *observer) begin(ctx context.Context) context.Context {
	s := &telemetry.Subject{Function: o.function, ColdStart: !o.warm.Swap(true)}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		s.Invocation = lc.AwsRequestID
	}
	o.current.Store(s)
	return telemetry.With(ctx, s)
}

// subject returns the current invocation, or only the function before the first
// one.
func (o *observer) subject() telemetry.Subject {
	if s := o.current.Load(); s != nil {
		return *s
	}
	return telemetry.Subject{Function: o.function}
}

// flush writes the metrics.
func (o *observer) flush() error {
	if o.metrics == nil {
		return nil
	}
	used := o.units.Reset().Total()
	for metric, units := range map[telemetry.Metric]float64{telemetry.ReadUnits: used.Read, telemetry.WriteUnits: used.Write} {
		if units > 0 && !o.quiet {
			o.metrics.Add(metric, telemetry.Dimensions{Function: o.function}, units)
		}
	}
	return o.metrics.Flush(o.clock.Now(), o.subject())
}

// observed adds the invocation to the log context of next.
func observed[In, Out any](o *observer, next func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) {
		return next(o.begin(ctx), in)
	}
}

// measured counts the invocations of a function that are not counted elsewhere.
func (p *platform) measured(next fn.Handler) fn.Handler {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		began := p.deps.Clock.Now()
		out, err := next(ctx, payload)
		p.deps.Metrics.Call(p.spec.Name, p.deps.Clock.Now().Sub(began), string(errs.CodeOf(err)))
		return out, err
	}
}

// runtimeLog receives the log of package lambda: errors of invocations,
// including panics, as reported to Lambda, and problems with the Runtime API.
// Errors of invocations are logged only here.
type runtimeLog struct {
	log *slog.Logger
	of  *observer
}

// Write logs one message.
func (r runtimeLog) Write(data []byte) (int, error) {
	s := r.of.subject()
	ctx := telemetry.With(context.Background(), &s)
	var failure struct {
		Message string          `json:"errorMessage"`
		Type    string          `json:"errorType"`
		Stack   json.RawMessage `json:"stackTrace"`
	}
	if reported := json.Unmarshal(data, &failure) == nil; !reported || failure.Type == "" {
		r.log.WarnContext(ctx, string(bytes.TrimSpace(data)))
		return len(data), nil
	}
	attrs := []slog.Attr{slog.String("error", failure.Message), slog.String("exception_type", failure.Type)}
	if len(failure.Stack) > 0 {
		attrs = append(attrs, slog.String("traceback", string(failure.Stack)))
	}
	r.log.LogAttrs(ctx, slog.LevelError, "invocation failed", attrs...)
	return len(data), nil
}

// setDefaultLoggers sets the process's default loggers to the function's.
func (p *platform) setDefaultLoggers() {
	slog.SetDefault(p.deps.Log)
	log.SetFlags(0)
	log.SetOutput(runtimeLog{p.deps.Log, &p.observer})
}

// logFailedStart logs why the function cannot start, in the function's log format.
func logFailedStart(name string, err error) {
	s := telemetry.Subject{Function: name, ColdStart: true}
	telemetry.NewLogger(os.Stdout, telemetry.JSON, slog.LevelInfo).
		ErrorContext(telemetry.With(context.Background(), &s), "the function does not start", "error", err)
}
