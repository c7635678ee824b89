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

// service holds the rules of a tick.
type service struct {
	table   table.Table
	queues  queue.Queues
	clock   clock.Clock
	log     *slog.Logger
	metrics *telemetry.Metrics
	kinds   []due.Kind
	local   bool // the embedded server: a tick may bring its own time
}

func handler(d fn.Deps, kinds []due.Kind) fn.Handler {
	s := service{table: d.Table, queues: d.Queues, clock: d.Clock, log: d.Log, metrics: d.Metrics, kinds: kinds, local: d.Config.Sole}
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var tick events.SchedulerTick
		if err := json.Unmarshal(payload, &tick); err != nil {
			return nil, errs.Wrap(errs.Invalid, err, "The payload is not a scheduler tick")
		}
		return s.tick(ctx, tick)
	}
}

// tick hands out up to max_due of the entries that are due, the same share of each
// shard of each kind as long as it has as many, the oldest of a shard first. What
// it does not come to stays for the next tick, and so does what could not be
// handed out or read: that is counted as failures, an entry or a shard each. An
// error is returned if no shard could be read.
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
	s.tell(ctx, result, r.lag)
	if len(failed) == len(r.shards) {
		return result, errors.Join(failed...)
	}
	return result, nil
}

// check refuses what is no tick, and returns the time that it brings, the zero time
// if it brings none.
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

// tell logs and measures a tick. lag is how long what was most overdue had been.
func (s service) tell(ctx context.Context, result events.SchedulerTickResult, lag time.Duration) {
	s.metrics.Time(telemetry.TickLag, telemetry.Dimensions{Function: telemetry.From(ctx).Function}, lag)
	level := slog.LevelDebug
	if result.Checked > 0 {
		level = slog.LevelInfo
	}
	s.log.LogAttrs(ctx, level, "tick", slog.Int("checked", result.Checked), slog.Int("triggered", result.Triggered),
		slog.Int("failures", result.Failures), slog.Float64("lag_ms", telemetry.Milliseconds(lag)))
}
