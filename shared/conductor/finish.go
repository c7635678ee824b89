package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/bus"
	"millrace/shared/engine"
	"millrace/shared/queue"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
	"millrace/shared/telemetry"
)

// end is END: all sinks are finished. A run that failed runs its on_failure
// task first; any other ends here.
func (s *session) end(ctx context.Context, worst engine.Outcome) error {
	status := engine.RunStatus(worst)
	if status == engine.Succeeded || s.flow.OnFailure == nil { //guard:end/on_failure true
		return s.endRun(ctx, status)
	}
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do:  []table.Action{table.SetIfAbsent(runstate.RunWorst, int(worst))},
		If:  table.Eq(runstate.RunStatus, string(engine.Running)), //guard:end/worst drop
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("note outcome: %w", err)
	}
	n := s.flow.plan.OnFailure()
	if s.again {
		item, err := s.node(ctx, n)
		if err != nil {
			return err
		}
		if item != nil && item.Status.Terminal() { //guard:end/on_failure-again false
			return s.endRun(ctx, status)
		}
	}
	s.ready = append(s.ready, ready{n, 1})
	return nil
}

// endOnFailure ends a run whose on_failure task is over, however that ended.
func (s *session) endOnFailure(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if s.run.Worst == nil {
		return fmt.Errorf("conductor: run %s ran on_failure without an outcome", s.id)
	}
	return s.endRun(ctx, engine.RunStatus(engine.Outcome(*s.run.Worst)))
}

// endRun makes a run terminal, unless it was stopped meanwhile.
func (s *session) endRun(ctx context.Context, status engine.Status) error {
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do: []table.Action{
			table.Set(runstate.RunStatus, string(status)),
			//guard:due/kept insert table.Remove(runstate.DuePK), table.Remove(runstate.DueSK)
			table.Set(runstate.RunEnded, int64(millis(s.Clock.Now()))),
		},
		If: table.And(
			table.Eq(runstate.RunStatus, string(engine.Running)), //guard:end/running drop
			table.Absent(runstate.RunFence),                      //guard:end/fence drop
		),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("end run: %w", err)
	}
	return s.over(ctx, stored)
}

// over does what follows the write that made a run terminal.
func (s *session) over(ctx context.Context, stored table.Item) error {
	run := &runstate.Run{}
	if err := table.Unmarshal(stored, run); err != nil {
		return err
	}
	s.run = run
	s.Metrics.Count(telemetry.RunsFinished, telemetry.Dimensions{Tier: run.Mode, Outcome: string(run.Status)})
	level := "info"
	if run.Status != engine.Succeeded {
		level = "error"
	}
	s.log(runlog.TypeRunFinished, level, "Run %s ended: %s", run.Slug, run.Status)
	s.Hub.Signal(runstate.RunSignal(s.id))
	return s.finalize(ctx)
}

// finalize archives the log of a terminal run and publishes its end; only then
// does the run leave the due index. Repeatable.
func (s *session) finalize(ctx context.Context) error {
	if s.run.Archived {
		return nil
	}
	if err := s.Logs.Archive(ctx, s.org, s.id); err != nil { //guard:due/archive false
		return err
	}
	run := s.run
	detail, err := json.Marshal(events.RunFinished{
		Org: run.Org, Run: run.ID, Flow: run.Flow, Version: run.Version, Deployment: run.Deployment,
		Environment: run.Environment, Status: string(run.Status), Trigger: run.Trigger,
		CreatedAt: run.CreatedAt.String(), StartedAt: run.StartedAt.String(), EndedAt: run.EndedAt.String(),
		DurationMS: run.Duration(), Error: run.Error,
	})
	if err != nil {
		return err
	}
	err = s.Bus.Publish(ctx, bus.Event{DetailType: events.DetailRunFinished, Detail: detail, Workspace: s.org, Time: run.EndedAt.Time()})
	if err != nil { //guard:due/published false
		return fmt.Errorf("publish end of run: %w", err)
	}
	_, err = s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do: []table.Action{
			table.Set(runstate.RunArchived, true),
			table.Remove(runstate.DuePK), table.Remove(runstate.DueSK), //guard:due/left drop
		},
	})
	if err != nil {
		return fmt.Errorf("take run off the due index: %w", err)
	}
	return nil
}

// settle ends a stopped run once nothing of it runs any more. While something
// does, a look that was asked for asks for another.
func (s *session) settle(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	now := s.Clock.Now()
	why := s.run.Fenced(now)
	switch {
	case s.run.Status.RunEnded():
		return s.finalize(ctx)
	case why == "":
		return nil
	}
	if why == runstate.FenceDeadline && s.run.Fence == "" { //guard:deadline/fence false
		if err := s.fence(ctx, now); err != nil {
			return err
		}
	}
	items, err := runstate.LoadNodes(ctx, s.Table, s.run, s.flow.plan, false)
	if err != nil {
		return err
	}
	for n, item := range items {
		if item.Status != engine.Running || item.Nonce == "" {
			continue
		}
		runs := s.held(item, now) //guard:stop/live-leases false
		if !runs {
			if runs, err = s.takeBack(ctx, n, item, why); err != nil { //guard:stop/taken-back drop
				return err
			}
		}
		switch {
		case !runs:
		case s.chain != chainLook:
			return nil
		default:
			return s.lookLater(ctx, CancelPoll) //guard:stop/look-again return nil
		}
	}
	to, from := engine.Cancelled, engine.CancellationRequested
	do := []table.Action{table.Set(runstate.RunEnded, int64(millis(now)))}
	if s.run.Status == engine.Running {
		to, from = engine.TimedOut, engine.Running
		do = append(do, table.Set(runstate.RunError, fmt.Sprintf("The run passed its timeout_secs=%d.", s.run.Timeout)))
	}
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do:  append(do, table.Set(runstate.RunStatus, string(to))),
		If:  table.Eq(runstate.RunStatus, string(from)), //guard:stop/once drop
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.lookLater(ctx, time.Second) // moved on meanwhile: look again
	}
	if err != nil {
		return fmt.Errorf("end stopped run: %w", err)
	}
	return s.over(ctx, stored)
}

// takeBack cancels an attempt whose lease ran out, so that its worker, if it
// lives after all, can end it in no other way once the run is over. It reports
// whether the attempt still runs.
func (s *session) takeBack(ctx context.Context, n engine.Node, item *runstate.Node, why string) (bool, error) {
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n),
		Do:  s.cancelled(why),
		If: table.And(
			table.Eq(runstate.NodeNonce, item.Nonce),              //guard:stop/taken-over drop
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:stop/running drop
			table.Eq(runstate.NodeLease, int64(item.LeaseUntil)),  //guard:stop/renewed drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		now := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, now); err != nil {
			return false, err
		}
		return now.Status == engine.Running, nil
	}
	if err != nil {
		return false, fmt.Errorf("cancel node %d: %w", n, err)
	}
	s.countTask(engine.Cancelled)
	return false, nil
}

// fence writes a deadline's fence, so that the run can end in no other way.
func (s *session) fence(ctx context.Context, now time.Time) error {
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do:  []table.Action{table.Set(runstate.RunFence, runstate.FenceDeadline), table.Set(runstate.RunFenceAt, int64(millis(now)))},
		//guard:deadline/cancel drop
		If: table.And(table.Eq(runstate.RunStatus, string(engine.Running)), table.Absent(runstate.RunFence)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.load(ctx)
	}
	if err != nil {
		return fmt.Errorf("fence run: %w", err)
	}
	s.run.Fence = runstate.FenceDeadline
	s.Hub.Signal(runstate.FenceSignal(s.id))
	return nil
}

// watchDeadline asks for a look at the deadline, if a queue can delay that
// long; later ones the due index brings up.
func (s *session) watchDeadline(ctx context.Context, now time.Time) error {
	if s.run.Deadline == 0 {
		return nil
	}
	if wait := s.run.Deadline.Time().Sub(now); wait < queue.MaxDelay-time.Second {
		return s.lookLater(ctx, wait+time.Second) //guard:deadline/watched return nil
	}
	return nil
}
