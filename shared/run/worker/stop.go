package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

// stop ends a stopped run when none of its attempts runs any more. Until then
// each requested reconciliation requests another.
func (l *lifecycle) stop(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	now := l.Clock.Now()
	why := l.run.Fenced(now)
	switch {
	case l.run.Status.RunEnded():
		return l.archive(ctx)
	case why == "":
		return nil
	}
	items, err := l.nodes(ctx)
	if err != nil {
		return err
	}
	if why == runstate.FenceDeadline && l.run.Fence == "" { //guard:deadline/fence false
		if worst, ok := l.inTime(items); ok { //guard:deadline/in-time false
			return l.end(ctx, engine.RunStatus(worst))
		}
		if err := l.fence(ctx, now); err != nil {
			return err
		}
		// By another clock an attempt may have been claimed since the items were
		// read. Attempts claimed from now on do not begin.
		again, err := l.nodes(ctx)
		if err != nil {
			return err
		}
		items = again //guard:deadline/claimed-meanwhile drop
	}
	runs, err := l.takeBackAll(ctx, items, now, why)
	switch {
	case err != nil:
		return err
	case runs && l.chain == chainReconcile:
		return l.reconcileLater(ctx, CancelPoll) //guard:stop/reconcile-again return nil
	case runs:
		return nil
	}
	return l.endStopped(ctx, now, items)
}

// nodes reads the run's items without their large attributes.
func (l *lifecycle) nodes(ctx context.Context) (map[engine.Node]*runstate.Node, error) {
	return runstate.LoadNodes(ctx, l.Table, l.run, l.flow.plan, false, runstate.Light)
}

// inTime reports whether all nodes of the run finished before its deadline, and
// the outcome: only the write of the run's end is late then.
func (l *lifecycle) inTime(items map[engine.Node]*runstate.Node) (engine.Outcome, bool) {
	finished := func(n engine.Node) bool {
		item := items[n]
		return item != nil && item.Status.Terminal() && item.EndedAt <= l.run.Deadline
	}
	leads := make([]bool, l.flow.plan.Len())
	for i := range leads {
		if !finished(engine.Node(i)) {
			return 0, false
		}
		for _, d := range l.flow.plan.Def(i).Deps {
			leads[d] = true
		}
	}
	var sinks engine.Sets
	for i, leads := range leads {
		if !leads {
			sinks.Add(items[engine.Node(i)].Outcome())
		}
	}
	worst := sinks.Worst()
	if engine.RunStatus(worst) != engine.Succeeded && l.flow.OnFailure != nil && !finished(l.flow.plan.OnFailure()) {
		return 0, false
	}
	return worst, true
}

// takeBackAll cancels every attempt whose lease has expired, and reports
// whether others still run.
func (l *lifecycle) takeBackAll(ctx context.Context, items map[engine.Node]*runstate.Node, now time.Time, why string) (bool, error) {
	for n, item := range items {
		if item.Status != engine.Running || item.Nonce == "" {
			continue
		}
		runs := l.leased(item, now) //guard:stop/live-leases false
		if !runs {
			var err error
			if runs, err = l.takeBack(ctx, n, item, why); err != nil { //guard:stop/taken-back drop
				return false, err
			}
			item.Status = engine.Cancelled
		}
		if runs {
			return true, nil
		}
	}
	return false, nil
}

// endStopped makes a stopped run terminal. It records the nodes as they are
// now, for readers: a propagation under way may still write some, and a message
// may still claim one before it sees the fence.
func (l *lifecycle) endStopped(ctx context.Context, now time.Time, items map[engine.Node]*runstate.Node) error {
	if err := l.giveUpSlots(ctx, items); err != nil {
		return err
	}
	to := engine.Cancelled
	do := []table.Action{
		table.Set(runstate.RunEnded, int64(millis(now))),
		table.Set(runstate.RunFinal, runstate.MakeFinal(items)), //guard:stop/final drop
	}
	if l.run.Status == engine.Running {
		to = engine.TimedOut
		do = append(do, table.Set(runstate.RunError, fmt.Sprintf("The run passed its timeout_secs (%d).", l.run.Timeout)))
	}
	//guard:stop/once arg 3 nil
	err := l.update(ctx, "end stopped run", status(to), append(do, table.Set(runstate.RunStatus, string(to)))...)
	if errors.Is(err, table.ErrConditionFailed) {
		return l.reconcileLater(ctx, time.Second) // it changed meanwhile
	}
	if err != nil {
		return err
	}
	return l.afterEnd(ctx)
}

// takeBack cancels an attempt whose lease has expired, so that its worker, if
// it is alive, cannot end it otherwise after the run has ended. It reports
// whether the attempt still runs.
func (l *lifecycle) takeBack(ctx context.Context, n engine.Node, item *runstate.Node, why string) (bool, error) {
	_, err := l.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(l.org, l.id, n),
		Do:  append(l.cancelled(why), table.Set(runstate.NodeStatus, string(engine.Cancelled))),
		If: table.And(
			table.Eq(runstate.NodeNonce, item.Nonce),             //guard:stop/taken-over drop
			from(engine.Stop, engine.Cancelled),                  //guard:stop/running drop
			table.Eq(runstate.NodeLease, int64(item.LeaseUntil)), //guard:stop/renewed drop
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
	l.countTask(engine.Cancelled)
	l.slotFreed(ctx, l.org, slots.Parse(item.Slot)) //guard:slot/taken-back drop
	if w := l.subjectOf(n, item); w.task != nil {
		l.event(w, runlog.TypeTaskCancelled, "warning", "Task %s stopped: %s", w.task.Name, reason(why))
	}
	return false, nil
}

// release cancels a claimed attempt of a stopped run, and ends the run if it
// was the last one that ran. It retries while the lease is alive: the attempt's
// message, delivered again, would find the lease and do nothing.
func (l *lifecycle) release(ctx context.Context, w *attempt, why string) error {
	for try := 0; ; try++ {
		err := l.cancel(ctx, w, why)
		if err == nil {
			return l.stop(ctx)
		}
		left := w.item.LeaseUntil.Time().Sub(l.Clock.Now())
		if left < Heartbeat || !sleep(ctx, min(firstAgain<<min(try, 10), mostAgain)) { //guard:release/again true
			return err
		}
	}
}

// cancel writes the end of a claimed attempt of a stopped run. Its log is
// written first: the write may let the run end, and with it the log. It may be
// repeated.
func (l *lifecycle) cancel(ctx context.Context, w *attempt, why string) error {
	if why == runstate.FenceDeadline && l.run.Fence == "" { //guard:release/fence-first false
		// The deadline has passed by this clock but maybe not by others, and those
		// would finish a run that lost this task.
		if err := l.fence(ctx, l.Clock.Now()); err != nil {
			return err
		}
	}
	if w.task == nil {
		w.task, _ = l.task(w.node)
	}
	if w.task != nil && !l.run.Status.RunEnded() { //guard:log/after-the-end drop operand 2
		l.logEnd(w, runlog.TypeTaskCancelled, "warning", "Task %s stopped: %s", w.task.Name, reason(why))
		if err := l.flushWithin(ctx, w); err != nil {
			return err
		}
	}
	item, err := l.conclude(ctx, w, engine.Cancelled, l.cancelled(why), concluded(w))
	if item != nil {
		l.slotFreed(ctx, l.org, slots.Parse(w.item.Slot)) //guard:slot/cancelled drop
	}
	return err
}

// flushWithin flushes the log for as long as the attempt's lease allows. Lines
// of a log that takes longer are stored after the message, and added to the
// archive if it exists by then.
func (l *lifecycle) flushWithin(ctx context.Context, w *attempt) error {
	left := w.item.LeaseUntil.Time().Sub(l.Clock.Now()) - Heartbeat
	limited, cancel := context.WithTimeout(ctx, min(max(left, 0), Heartbeat))
	defer cancel()
	if err := l.flush(limited); err != nil {
		l.Log.WarnContext(ctx, "log not stored before the attempt ends", "node", w.node, "error", err)
	}
	return ctx.Err()
}

// cancelled returns the actions that end an attempt of a stopped run, besides
// its status.
func (l *lifecycle) cancelled(why string) []table.Action {
	return []table.Action{
		table.Set(runstate.NodeErrorType, executor.Cancelled),
		table.Set(runstate.NodeError, reason(why)),
		table.Set(runstate.NodeEnded, int64(millis(l.Clock.Now()))),
		table.Remove(runstate.NodeLease), table.Remove(runstate.NodeReason),
	}
}

func reason(why string) string {
	switch why {
	case runstate.FenceCancel:
		return "The run was cancelled."
	case runstate.FenceDeadline:
		return "The run passed its timeout_secs."
	}
	return "The run is over."
}

// fence writes the fence of a deadline, so that the run can end in no other
// way.
func (l *lifecycle) fence(ctx context.Context, now time.Time) error {
	_, err := l.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(l.org, l.id),
		Do:  []table.Action{table.Set(runstate.RunFence, runstate.FenceDeadline), table.Set(runstate.RunFenceAt, int64(millis(now)))},
		//guard:deadline/cancel drop
		If: table.And(table.Eq(runstate.RunStatus, string(engine.Running)), table.Absent(runstate.RunFence)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return l.load(ctx)
	}
	if err != nil {
		return fmt.Errorf("fence run: %w", err)
	}
	l.run.Fence = runstate.FenceDeadline
	l.Broker.Signal(runstate.FenceSignal(l.id))
	return nil
}
