package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/slots"
)

// Times of attempts that are handed off.
const (
	// handOffTime is how long handing one off takes at most.
	handOffTime = 10 * time.Second
	// tokenLife is how long the token of a runner is valid after the latest time at
	// which it may begin: the longest task, its import and the upload of its output.
	tokenLife = 20 * time.Minute
)

// dispatched is the reason in the item of an attempt whose runner has not begun.
const dispatched = "It waits until a sandbox has started."

// remote returns what hands off the attempts of a task, nil if they are executed
// by a worker.
func (c *Worker) remote(task *flowspec.Task) executor.Dispatcher {
	if d, ok := c.Executors[task.Type].(executor.Dispatcher); ok && d.Dispatches() {
		return d
	}
	return nil
}

// handOff replaces the worker's lease of an attempt by the nonce of a runner, and
// has that started. Until the runner begins, the attempt is QUEUED and has no
// lease. It is written before the runner is started, which could not begin
// otherwise. If the worker dies in between, a message that finds the attempt, or
// the next reconciliation, starts the runner.
func (a *attempts) handOff(ctx context.Context, w *attempt, remote executor.Dispatcher) error {
	nonce := ids.Token(9)
	due := millis(a.Clock.Now().Add(HandOff))
	do := []table.Action{
		table.Set(runstate.NodeHanded, nonce), table.Set(runstate.NodeDue, int64(due)), table.Set(runstate.NodeReason, dispatched),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeStarted),
	}
	var slot slots.Slot
	var took bool
	if a.slots.Limits(a.org) {
		var err error
		if slot, took, err = a.slotFor(ctx, w); err != nil {
			_, err = a.unable(ctx, w, err)
			return err
		}
		if slot.None() { //guard:slot/limit false
			return a.queueUp(ctx, w)
		}
		do = append(do, table.Set(runstate.NodeSlot, slot.String()))
	}
	item, err := a.conclude(ctx, w, engine.Queued, do, func(item *runstate.Node) bool {
		return item.Handed == nonce //guard:hand-off/lost-answer return false
	})
	if err == nil && item == nil && took {
		a.slotFreed(ctx, a.org, slot)
	}
	if err != nil || item == nil {
		return err
	}
	w.item = item
	return a.dispatch(ctx, w, remote)
}

// handOffAgain starts a runner for an attempt again that was handed off and has
// not begun: the one before may never have been started. If both begin, one is
// refused.
func (a *attempts) handOffAgain(ctx context.Context, n engine.Node, item *runstate.Node) error {
	if a.run == nil {
		if err := a.load(ctx); err != nil {
			return err
		}
	}
	if a.run.Fenced(a.Clock.Now()) != "" {
		return nil
	}
	w := a.subjectOf(n, item)
	if w.task == nil {
		return fmt.Errorf("worker: node %d of run %s was handed off and runs no task", n, a.id)
	}
	remote := a.remote(w.task)
	if remote == nil {
		return nil // it is claimed when its time is over
	}
	return a.dispatch(ctx, w, remote)
}

// dispatch has a runner started. If that fails, the attempt is released.
func (a *attempts) dispatch(ctx context.Context, w *attempt, remote executor.Dispatcher) error {
	token := ticket.Attempt{
		Org: a.org, Run: a.id, Node: int(w.node), Number: w.item.Attempt, Task: w.task.Name, Nonce: w.item.Handed,
		Expires: w.item.Due.Time().Add(tokenLife).Unix(),
	}
	if w.ref.Kind == engine.KindInstance {
		token.MapIndex = &w.ref.Index
	}
	limited, cancel := context.WithTimeout(ctx, handOffTime)
	defer cancel()
	err := remote.Dispatch(limited, a.run.TierOf(w.task.Tier), token)
	if err == nil || ctx.Err() != nil { //guard:hand-off/refused true
		return err
	}
	a.Log.WarnContext(ctx, "attempt not handed off", "node", w.node, "deferred", w.item.Deferred, "error", err)
	return a.takeOff(ctx, w, err.Error())
}

// takeOff releases an attempt for which no runner could be started, like
// giveBack. A runner that was started after all either has begun, then nothing
// changes, or is refused.
func (a *attempts) takeOff(ctx context.Context, w *attempt, reason string) error {
	delay := a.backoff(w)
	due := millis(a.Clock.Now().Add(delay))
	_, err := a.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(a.org, a.id, w.node),
		Do: []table.Action{
			table.Set(runstate.NodeDue, int64(due)), table.Set(runstate.NodeReason, clip(reason)),
			table.Set(runstate.NodeDeferred, w.item.Deferred+1), table.Remove(runstate.NodeHanded), table.Remove(runstate.NodeSlot),
		},
		If: table.Eq(runstate.NodeHanded, w.item.Handed), //guard:hand-off/begun drop
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return nil
	}
	if err != nil {
		return err
	}
	// It is not passed on: the next one would most likely be refused as well.
	if slot := slots.Parse(w.item.Slot); !slot.None() {
		if err := a.slots.Release(ctx, a.org, slot); err != nil { //guard:slot/refused drop
			return err
		}
	}
	a.logEnd(w, runlog.TypeTaskDeferred, "warning", "Task %s could not begin: %s It is tried again in %s", w.task.Name, reason, delay.Round(100*time.Millisecond))
	return a.send(ctx, []ready{{w.node, w.item.Attempt, due}}, delay) //guard:hand-off/message return nil
}
