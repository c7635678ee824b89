package launch

import (
	"context"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/shared/account/audit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// cancelTries is how often a cancel is tried while the run changes
// concurrently.
const cancelTries = 8

// Cancel stops a run: a queued one at once, a running one when its tasks have
// stopped. A repeated cancel changes nothing, and requests the reconciliation
// that ends the run again. Errors: errs.NotFound; errs.Invalid for a run that
// has ended otherwise.
func (l *Launcher) Cancel(ctx context.Context, org, id string) (runstate.Run, error) {
	for range cancelTries {
		run, err := runstate.GetRun(ctx, l.Table, org, id, l.Clock.Now())
		if err != nil {
			return runstate.Run{}, err
		}
		switch run.Status {
		case engine.Cancelled:
			return run, nil
		case engine.CancellationRequested:
			l.reconcile(ctx, &run) //guard:cancel/reconcile-again drop
			return run, nil
		case engine.Queued, engine.Running:
		default:
			return runstate.Run{}, errs.New(errs.Invalid, "Run %s has already ended: %s", id, run.Status)
		}
		done, err := l.stop(ctx, &run)
		if err != nil || done {
			return run, err
		}
	}
	return runstate.Run{}, errs.New(errs.Unavailable, "Run %s keeps changing: try again", id)
}

// stop writes the cancellation. It returns false if the run changed meanwhile.
func (l *Launcher) stop(ctx context.Context, run *runstate.Run) (bool, error) {
	before, from, now := snapshot(run), run.Status, l.Clock.Now()
	run.Fence, run.FenceBy, run.FenceAt = runstate.FenceCancel, actor(ctx), clock.ToMillis(now)
	run.Status = engine.CancellationRequested
	// The tick finds the run if the message of its reconciliation is lost.
	due := runstate.DueAt(run.Org, run.ID, run.Tasks, now)
	run.DueEntry = due
	do := []table.Action{
		//guard:cancel/due drop
		table.Set(runstate.DueSK, due.DueSK),
		table.Set(runstate.RunFence, run.Fence), //guard:cancel/fence drop
		table.Set(runstate.RunFenceBy, run.FenceBy), table.Set(runstate.RunFenceAt, int64(run.FenceAt)),
	}
	if from == engine.Queued {
		run.Status, run.EndedAt = engine.Cancelled, run.FenceAt
		do = append(do, table.Set(runstate.RunEnded, int64(run.EndedAt)))
	}
	err := l.Table.Transact(ctx,
		table.Update{
			Key: run.Key, Do: append(do, table.Set(runstate.RunStatus, string(run.Status))),
			If: table.Eq(runstate.RunStatus, string(from)), //guard:cancel/raced drop
		},
		//guard:cancel/audit hoist if err := l.Table.Put(ctx, _); err != nil { return false, err }
		audit.EntryFor(ctx, run.Org, now, audit.Change{
			Action: "cancel", ResourceType: "run", ResourceID: run.ID, Before: before, After: snapshot(run),
		}),
	)
	if errors.Is(err, table.ErrConditionFailed) || errors.Is(err, table.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cancel run: %w", err)
	}
	l.Broker.Signal(runstate.FenceSignal(run.ID))
	if run.Status == engine.Cancelled {
		l.Broker.Signal(runstate.RunSignal(run.ID))
		l.Metrics.Count(telemetry.RunsFinished, telemetry.Dimensions{Tier: run.Mode, Outcome: string(run.Status)})
	}
	// The reconciliation ends the run when no task of it runs. Tasks see the fence
	// by themselves.
	//guard:cancel/look drop
	l.reconcile(ctx, run)
	return true, nil
}

// reconcile requests a reconciliation of the run.
func (l *Launcher) reconcile(ctx context.Context, run *runstate.Run) {
	l.send(ctx, events.Runs, events.Run{Kind: events.RunReconcile, Org: run.Org, Run: run.ID, Trace: telemetry.From(ctx).Trace.String()})
}
