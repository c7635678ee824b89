package schedulertick

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// service implements the rules of a tick.
type service struct {
	table   table.Table
	queues  queue.Queues
	clock   clock.Clock
	log     *slog.Logger
	metrics *telemetry.Metrics
	kinds   []due.Kind
	local   bool // the embedded server: a tick may carry its own time
}

func handler(d fn.Deps, kinds []due.Kind) fn.Handler {
	s := service{table: d.Table, queues: d.Queues, clock: d.Clock, log: d.Log, metrics: d.Metrics, kinds: kinds, local: d.Config.Exclusive}
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var tick events.SchedulerTick
		if err := json.Unmarshal(payload, &tick); err != nil {
			return nil, errs.Wrap(errs.Invalid, err, "The payload is not a scheduler tick")
		}
		return s.tick(ctx, tick)
	}
}

// tick hands out up to max_due due entries, the same share from each shard of
// each kind if it has as many, the oldest of a shard first. The rest is left
// for the next tick, as is what could not be read or handed out, which counts
// as failures, one for each entry or shard. It returns an error if no shard
// could be read.
func (s service) tick(ctx context.Context, tick events.SchedulerTick) (events.SchedulerTickResult, error) {
	result := events.SchedulerTickResult{Status: "processed"}
	brought, err := s.check(tick)
	if err != nil {
		return result, err
	}
	limit := tick.MaxDue
	if limit <= 0 {
		limit = events.DefaultMaxDue
	}
	r := s.round(ctx, brought, limit)
	failed := r.read(ctx)
	result.Checked, result.Triggered, result.Failures = r.wait(ctx)
	result.Failures += len(failed)
	if len(failed) == len(r.shards) {
		return result, errors.Join(failed...) // the lag is not known
	}
	s.report(ctx, result, r.lag)
	return result, nil
}

// check rejects an invalid tick, and returns the time that the tick carries, or
// the zero time.
func (s service) check(tick events.SchedulerTick) (brought time.Time, err error) {
	if tick.EventType != events.TickType {
		return brought, errs.New(errs.Invalid, "event_type is %q, not %q", tick.EventType, events.TickType)
	}
	if tick.Now == "" {
		return brought, nil
	}
	if !s.local {
		return brought, errs.New(errs.Invalid, "now is for the embedded server only")
	}
	if brought, err = time.Parse(time.RFC3339, tick.Now); err != nil || brought.Unix() < 0 {
		return brought, errs.New(errs.Invalid, "now is %q, not a time since 1970 such as 2026-01-31T12:00:00Z", tick.Now)
	}
	return brought.UTC(), nil
}

// report logs and measures a tick. lag is the age of the most overdue entry.
func (s service) report(ctx context.Context, result events.SchedulerTickResult, lag time.Duration) {
	of := telemetry.Dimensions{Function: telemetry.From(ctx).Function}
	s.metrics.Time(telemetry.TickLag, of, lag)
	if result.Failures > 0 {
		s.metrics.Add(telemetry.TickFailures, of, float64(result.Failures))
	}
	level := slog.LevelDebug
	if result.Checked > 0 {
		level = slog.LevelInfo
	}
	s.log.LogAttrs(ctx, level, "tick", slog.Int("checked", result.Checked), slog.Int("triggered", result.Triggered),
		slog.Int("failures", result.Failures), slog.Float64("lag_ms", telemetry.Milliseconds(lag)))
}
