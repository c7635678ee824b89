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
)

// service holds the rules of a tick.
type service struct {
	table  table.Table
	queues queue.Queues
	clock  clock.Clock
	log    *slog.Logger
	local  bool // the embedded server: a tick may bring its own time
}

func handler(d fn.Deps) fn.Handler {
	s := service{table: d.Table, queues: d.Queues, clock: d.Clock, log: d.Log, local: d.Config.Sole}
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
	due := table.Query{Index: table.Due, Range: runstate.DueUntil(s.clock.Now()), Limit: 100}
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
			if err := s.look(ctx, item.Key()); err != nil {
				s.log.Error("due entry failed", "pk", item.Key().PK, "error", err)
				result.Failures++
				continue
			}
			result.Triggered++
		}
	}
	return result, nil
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
