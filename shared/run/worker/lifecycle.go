package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// lifecycle starts and finishes runs, stops those that were cancelled or
// exceeded their deadline, and archives those that ended.
type lifecycle struct{ *session }

// status returns the condition under which the run may change to a status, from
// the table of transitions.
func status(to engine.Status) table.Cond {
	before := engine.Before(to)
	names := make([]string, len(before))
	for i, s := range before {
		names[i] = string(s)
	}
	return table.In(runstate.RunStatus, names...)
}

// update changes the run's record if a condition holds, and takes over the new
// record. Errors: table.ErrConditionFailed.
func (l *lifecycle) update(ctx context.Context, what string, condition table.Cond, do ...table.Action) error {
	stored, err := l.Table.Update(ctx, table.Update{Key: runstate.RunKey(l.org, l.id), Do: do, If: condition})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	run := &runstate.Run{}
	if err := table.Unmarshal(stored, run); err != nil {
		return err
	}
	l.run = run
	return nil
}

// start starts a run: QUEUED changes to RUNNING before any task is claimed. It
// reports whether this call did so. timeout is the run's, in seconds, 0 for
// none. The run is read as well.
func (l *lifecycle) start(ctx context.Context, timeout int) (bool, error) {
	now := l.Clock.Now()
	do := []table.Action{
		table.Set(runstate.RunStatus, string(engine.Running)),
		table.Set(runstate.RunStarted, int64(millis(now))),
	}
	if timeout > 0 { //guard:start/deadline false
		do = append(do, table.Set(runstate.RunDeadline, int64(millis(now))+1000*int64(timeout)))
	}
	began := l.Logs.Begin(l.org, l.id)
	//guard:start/first insert if d, err := true, error(nil); err == nil { return d, nil }
	err := l.update(table.SyncLater(ctx), "start run", status(engine.Running), do...) //guard:start/queued arg 3 nil
	if errors.Is(err, table.ErrConditionFailed) {
		return false, l.load(ctx) // another delivery or a cancel was first
	}
	if err != nil {
		return false, err
	}
	began()
	l.Metrics.Time(telemetry.StartDelay, l.tier(), max(now.Sub(l.run.CreatedAt.Time()), 0))
	l.log(runlog.TypeRunStarted, "info", "Run %s of %s %s started", l.run.Slug, l.run.Flow, l.run.Version)
	if err := l.watchDeadline(ctx, now); err != nil {
		return true, err
	}
	return true, l.plan(ctx)
}

// watchDeadline requests a reconciliation at the deadline if a queue can delay
// it that long. The due index brings up later ones.
func (l *lifecycle) watchDeadline(ctx context.Context, now time.Time) error {
	if l.run.Deadline == 0 {
		return nil
	}
	if wait := l.run.Deadline.Time().Sub(now); wait < queue.MaxDelay-time.Second {
		return l.reconcileLater(ctx, wait+time.Second) //guard:deadline/watched return nil
	}
	return nil
}

// finish handles the end of the graph: all sinks are finished. For a failed run
// with an on_failure task it reports that the task is to run; any other run
// ends.
func (l *lifecycle) finish(ctx context.Context, worst engine.Outcome) (onFailure bool, err error) {
	to := engine.RunStatus(worst)
	if to == engine.Succeeded {
		if err := l.keepResult(ctx); err != nil {
			return false, err
		}
	}
	if to == engine.Succeeded || l.flow.OnFailure == nil { //guard:end/on_failure true
		return false, l.end(ctx, to)
	}
	//guard:end/worst arg 3 nil
	err = l.update(ctx, "note outcome",
		table.Eq(runstate.RunStatus, string(engine.Running)),
		table.SetIfAbsent(runstate.RunWorst, int(worst)))
	if errors.Is(err, table.ErrConditionFailed) {
		return false, l.stop(ctx)
	}
	if err != nil {
		return false, err
	}
	if l.again {
		item, err := l.node(ctx, l.flow.plan.OnFailure())
		if err != nil {
			return false, err
		}
		if item != nil && item.Status.Terminal() { //guard:end/on_failure-again false
			return false, l.end(ctx, to)
		}
	}
	return true, nil
}

// finishFailed ends a run whose on_failure task is finished, whatever its
// status.
func (l *lifecycle) finishFailed(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if l.run.Worst == nil {
		return fmt.Errorf("worker: run %s ran on_failure without an outcome", l.id)
	}
	return l.end(ctx, engine.RunStatus(engine.Outcome(*l.run.Worst)))
}

// end makes a run terminal, unless it was stopped meanwhile.
func (l *lifecycle) end(ctx context.Context, to engine.Status) error {
	do := []table.Action{
		table.Set(runstate.RunStatus, string(to)),
		//guard:due/kept insert table.Remove(runstate.DuePK), table.Remove(runstate.DueSK)
		table.Set(runstate.RunEnded, int64(millis(l.Clock.Now()))),
	}
	if to != engine.Succeeded {
		failed, err := l.failures(ctx)
		if err != nil {
			return err
		}
		why, err := failed.verdict(ctx, to)
		if err != nil {
			return err
		}
		do = append(do, table.Set(runstate.RunError, why))
	}
	err := l.update(ctx, "end run",
		table.And(
			status(to),                      //guard:end/running drop
			table.Absent(runstate.RunFence), //guard:end/fence drop
		), do...)
	if errors.Is(err, table.ErrConditionFailed) {
		return l.stop(ctx)
	}
	if err != nil {
		return err
	}
	return l.afterEnd(ctx)
}

// afterEnd follows the write that made a run terminal.
func (l *lifecycle) afterEnd(ctx context.Context) error {
	run := l.run
	l.Metrics.Count(telemetry.RunsFinished, telemetry.Dimensions{Tier: run.Mode, Outcome: string(run.Status)})
	l.runSpan(ctx)
	level := "info"
	if run.Status != engine.Succeeded {
		level = "error"
	}
	l.log(runlog.TypeRunFinished, level, "Run %s ended: %s", run.Slug, run.Status)
	if run.Status == engine.Failed || run.Status == engine.TimedOut {
		// The run's error quotes the user's code, so it is not logged here.
		l.Log.InfoContext(ctx, "run failed", "run_slug", run.Slug, "flow", run.Flow, "version", run.Version, "status", string(run.Status))
	}
	l.Broker.Signal(runstate.RunSignal(l.id))
	return l.archive(ctx)
}
