package worker

import (
	"context"
	"fmt"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// settling time of an attempt whose executor lost sight of it: by then its
// runner has learned from the fence that another attempt has taken its place,
// and has stopped the task.
const lostSettles = 15 * time.Second

// lostAttempt returns the record of an attempt that was lost.
func lostAttempt(item *runstate.Node, now time.Time, why string) runstate.Attempt {
	return runstate.Attempt{
		Attempt: item.Attempt, Status: engine.Failed, StartedAt: item.StartedAt, EndedAt: millis(now),
		ErrorType: executor.WorkerLost, Error: why,
	}
}

// endsLost returns the actions that end a task that was lost too often, besides
// its status and count.
func endsLost(end runstate.Attempt, why string) []table.Action {
	return []table.Action{
		table.Set(runstate.NodeErrorType, end.ErrorType),
		table.Set(runstate.NodeError, why),
		table.Set(runstate.NodeEnded, int64(end.EndedAt)),
		table.Remove(runstate.NodeLease),
	}
}

// afterLost returns the actions by which the attempt after a lost one waits
// until it is due, besides its status and count. why is shown to users.
func afterLost(end runstate.Attempt, due clock.Millis, why string) []table.Action {
	return []table.Action{
		table.Append(runstate.NodeHistory, end),
		table.Set(runstate.NodeAttempt, end.Attempt+1), //guard:take-over/held-attempt drop operand 2
		table.Set(runstate.NodeDue, int64(due)),
		table.Set(runstate.NodeReason, why),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeStarted),
		table.Remove(runstate.NodeDeferred), table.Remove(runstate.NodeAnnounced),
	}
}

// lose ends an attempt of which nothing is known but that its code may have
// begun. It counts like one whose worker was lost: the next attempt is no retry,
// and the MaxLost-th ends the task, whose item is then returned. reason is shown
// to users. If the write fails, the lease expires, with the same effect.
func (a *attempts) lose(ctx context.Context, w *attempt, reason string) (*runstate.Node, error) {
	now := a.Clock.Now()
	end := lostAttempt(w.item, now, clip(reason))
	count := w.item.Lost + 1 //guard:lose/count drop operand 2
	do := []table.Action{table.Set(runstate.NodeLost, count)}
	if count >= MaxLost { //guard:lose/tenth false
		why := fmt.Sprintf("The sandbox was lost %d times while it ran this task: %s", MaxLost, end.Error)
		item, err := a.conclude(ctx, w, engine.Failed, append(do, endsLost(end, clip(why))...), concluded(w))
		if err == nil && item != nil {
			a.event(w, runlog.TypeTaskFailed, "error", "Task %s failed: %s: %s", w.task.Name, item.ErrorType, item.Error)
		}
		return item, err
	}
	delay := min(lostSettles<<min(w.item.Lost, 10), HoldBack)
	due := millis(now.Add(delay))
	do = append(do, afterLost(end, due, fmt.Sprintf("The sandbox was lost %d times: %s. It is tried again after %s.", count, end.Error, due))...)
	item, err := a.conclude(ctx, w, engine.Queued, do, func(item *runstate.Node) bool {
		return item.Nonce == "" && item.Attempt == end.Attempt+1 && item.Due == due
	})
	if err != nil || item == nil {
		return nil, err
	}
	a.logEnd(w, runlog.TypeTaskLost, "warning", "Task %s was lost: %s; attempt %d follows in %s", w.task.Name, end.Error, item.Attempt, delay)
	//guard:lose/message return nil, nil
	return nil, a.send(ctx, []ready{{w.node, item.Attempt}}, delay)
}
