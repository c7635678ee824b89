package schedulertick

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// service holds the rules of a tick.
type service struct {
	table   table.Table
	queues  queue.Queues
	clock   clock.Clock
	log     *slog.Logger
	metrics *telemetry.Metrics
	local   bool // the embedded server: a tick may bring its own time
}

func handler(d fn.Deps) fn.Handler {
	s := service{table: d.Table, queues: d.Queues, clock: d.Clock, log: d.Log, metrics: d.Metrics, local: d.Config.Sole}
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var tick events.SchedulerTick
		if err := json.Unmarshal(payload, &tick); err != nil {
			return nil, errs.Wrap(errs.Invalid, err, "The payload is not a scheduler tick")
		}
		return s.tick(ctx, tick)
	}
}

// tick reads up to max_due entries of the due index, shard by shard, and acts
// on each. It begins with another shard each minute, so that none is left out
// when there is more than one tick sees to. An entry that cannot be seen to stays
// for the next tick, and so do those of a shard that cannot be read: the tick
// sees to the others and returns the error.
func (s service) tick(ctx context.Context, tick events.SchedulerTick) (events.SchedulerTickResult, error) {
	result := events.SchedulerTickResult{Status: "processed"}
	if tick.EventType != events.TickType {
		return result, errs.New(errs.Invalid, "event_type is %q, not %q", tick.EventType, events.TickType)
	}
	if tick.Now != "" && !s.local {
		return result, errs.New(errs.Invalid, "now is for the embedded server only")
	}
	limit := tick.MaxDue
	if limit <= 0 {
		limit = events.DefaultMaxDue
	}
	now := s.clock.Now()
	r := s.round(ctx, now, limit)
	var failures []error
	first := int(now.Unix() / 60)
	for i := range runstate.DueShards {
		shard := (first + i) % runstate.DueShards //guard:tick/rotates operand 1 i
		if err := r.shard(ctx, shard); err != nil {
			failures = append(failures, fmt.Errorf("read due index, shard %d: %w", shard, err))
		}
	}
	result.Checked, result.Triggered, result.Failures = r.wait(ctx)
	s.tell(ctx, result, r.lag)
	return result, errors.Join(failures...)
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
