package conductor

import (
	"context"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
	"millrace/shared/telemetry"
)

// start begins a run: QUEUED turns to RUNNING before any task is claimed.
func (s *session) start(ctx context.Context) error {
	s.chain = "start"
	now := s.Clock.Now()
	if err := s.load(ctx); err != nil {
		return err
	}
	switch s.run.Status {
	case engine.Queued:
		do := []table.Action{
			table.Set(runstate.RunStatus, string(engine.Running)),
			table.Set(runstate.RunStarted, int64(millis(now))),
		}
		if s.run.Timeout > 0 { //guard:start/deadline false
			do = append(do, table.Set(runstate.RunDeadline, int64(millis(now))+1000*int64(s.run.Timeout)))
		}
		//guard:start/first insert if err := s.begin(ctx); err != nil { return err }
		item, err := s.Table.Update(ctx, table.Update{
			Key: runstate.RunKey(s.org, s.id), Do: do,
			If: table.Eq(runstate.RunStatus, string(engine.Queued)), //guard:start/queued drop
		})
		if errors.Is(err, table.ErrConditionFailed) {
			s.again = true
			return s.restart(ctx) // another delivery was first, or a cancel
		}
		if err != nil {
			return fmt.Errorf("start run: %w", err)
		}
		if err := table.Unmarshal(item, s.run); err != nil {
			return err
		}
		s.Metrics.Time(telemetry.StartDelay, s.tier(), max(now.Sub(s.run.CreatedAt.Time()), 0))
		s.log(runlog.TypeRunStarted, "info", "Run %s of %s %s started", s.run.Slug, s.run.Flow, s.run.Version)
		if err := s.watchDeadline(ctx, now); err != nil {
			return err
		}
		return s.begin(ctx)
	default:
		s.again = true
		return s.restart(ctx)
	}
}

// restart is a start that was delivered again.
func (s *session) restart(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if s.run.Status.RunEnded() {
		return s.finalize(ctx)
	}
	if s.run.Fenced(s.Clock.Now()) != "" {
		return s.settle(ctx)
	}
	return s.begin(ctx)
}

// begin walks from the start and runs what is ready.
func (s *session) begin(ctx context.Context) error {
	if err := s.walk(ctx, done{node: events.Start}); err != nil {
		return err
	}
	return s.goOn(ctx)
}

// goOn runs one of the ready nodes and enqueues the others.
func (s *session) goOn(ctx context.Context) error {
	next, err := s.pick(ctx)
	if err != nil || next == nil {
		return err
	}
	return s.drive(ctx, *next)
}
