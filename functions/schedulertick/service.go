package schedulertick

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/clock"
	"millrace/shared/errs"
	"millrace/shared/fn"
	"millrace/shared/queue"
	"millrace/shared/runstate"
	"millrace/shared/table"
	"millrace/shared/telemetry"
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
// on each. An entry that cannot be seen to stays for the next tick.
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
	now, lag := s.clock.Now(), time.Duration(0)
	defer func() { s.tell(ctx, result, lag) }()
	due := table.Query{Index: table.Due, Range: runstate.DueUntil(now), Limit: 100}
	for shard := range runstate.DueShards {
		due.PK = runstate.DuePartition(shard)
		for item, err := range table.All(ctx, s.table, due) {
			if err != nil {
				return result, fmt.Errorf("read due index: %w", err)
			}
			if result.Checked >= limit {
				return result, nil
			}
			result.Checked++
			entry, _ := item.Entry(table.Due)
			if due, ok := runstate.DueTime(entry.SK); ok {
				lag = max(lag, now.Sub(due))
			}
			if err := s.look(ctx, item.Key()); err != nil {
				s.log.ErrorContext(ctx, "due entry failed", "entry", item.Key().PK, "error", err)
				result.Failures++
				continue
			}
			result.Triggered++
		}
	}
	return result, nil
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

// look asks for a look at a run.
func (s service) look(ctx context.Context, key table.Key) error {
	org, run, ok := runstate.ParseRunKey(key.PK)
	if !ok {
		return fmt.Errorf("unknown kind of due entry %q", key.PK)
	}
	body, err := json.Marshal(events.Run{Kind: events.RunLook, Org: org, Run: run})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return s.queues.Send(ctx, events.Runs, queue.Message{Body: body, Group: org})
}
