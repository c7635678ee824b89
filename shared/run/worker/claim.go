package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

// claim takes a lease on an attempt and returns the claimed item. If the
// attempt cannot be claimed it returns nil and the current item: finished,
// owned by another worker, or not yet due. What such an item still needs has
// been arranged.
func (a *attempts) claim(ctx context.Context, r ready) (mine, other *runstate.Node, err error) {
	now, nonce := a.Clock.Now(), a.ProcessID+"."+ids.Token(9)
	more := []table.Action{table.Remove(runstate.NodeUnlogged)}
	if to, ok := a.runnerOf(r); ok {
		nonce, more = to.nonce(), []table.Action{table.Set(runstate.NodeUnlogged, true)}
		if a.slots.Limits(a.org) {
			more = append(more, table.Set(runstate.NodeSlot, a.heir.slot.String())) //guard:slot/handed-on drop
		}
	}
	due := table.And(
		table.Eq(runstate.NodeAttempt, r.attempt),      //guard:claim/attempt drop
		table.Le(runstate.NodeDue, int64(millis(now))), //guard:claim/due drop
	)
	item, err := a.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(a.org, a.id, r.node),
		Do: append(append(runstate.Keep(a.Quota, a.org, now), more...),
			table.Set(runstate.NodeStatus, string(engine.Running)),
			table.Set(runstate.NodeAttempt, r.attempt),
			table.Set(runstate.NodeNonce, nonce),
			table.Set(runstate.NodeLease, int64(millis(now.Add(Lease)))),
			table.SetIfAbsent(runstate.NodeStarted, int64(millis(now))),
			table.Set(runstate.NodeChain, a.chain), //guard:inline/marked drop
			table.Remove(runstate.NodeDue), table.Remove(runstate.NodeReason), table.Remove(runstate.NodeHanded),
		),
		If: table.Or(
			//guard:claim/finished insert table.Eq(runstate.NodeStatus, string(engine.Succeeded))
			table.Absent(runstate.NodeStatus),
			table.And(from(engine.Claim, engine.Running), table.Absent(runstate.NodeNonce), due), //guard:claim/lease drop arg 2
		),
	})
	if err == nil {
		mine = &runstate.Node{}
		return mine, nil, table.Unmarshal(item, mine)
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return nil, nil, fmt.Errorf("claim node %d: %w", r.node, err)
	}
	old := &runstate.Node{}
	if err := table.Unmarshal(failed.Old, old); err != nil {
		return nil, nil, err
	}
	//guard:claim/lost-answer false
	if old.Nonce == nonce { // the claim was written, but its response lost
		return old, nil, nil
	}
	return a.refused(ctx, r, old, now)
}

// claimTries is how often a claim is tried before its message is delivered
// again. By then a claim whose response was lost is a live lease without an
// owner.
const claimTries = 5

// persist makes an idempotent write, again with growing delays while the table
// fails. Errors: table.ErrConditionFailed, or the last error.
func (s *session) persist(ctx context.Context, tries int, u table.Update) (item table.Item, err error) {
	for try := range tries {
		item, err = s.Table.Update(ctx, u)
		if err == nil || errors.Is(err, table.ErrConditionFailed) || ctx.Err() != nil {
			break
		}
		if try+1 < tries && !sleep(ctx, min(firstAgain<<min(try, 10), mostAgain)) {
			break
		}
	}
	return item, err
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refused handles an attempt that could not be claimed.
func (a *attempts) refused(ctx context.Context, r ready, old *runstate.Node, now time.Time) (mine, other *runstate.Node, err error) {
	switch {
	case old.Handed != "" && old.Attempt == r.attempt && old.Due.Time().After(now):
		return nil, old, a.handOffAgain(ctx, r.node, old)
	case old.Nonce == "" && old.Due != 0 && !old.Status.Terminal():
		if wait := old.Due.Time().Sub(now); wait > 0 || old.Attempt != r.attempt {
			// The attempt is not due, or the message belongs to an earlier one. If the
			// message is that of another wait, the one of this wait was sent by who
			// made the item wait, unless that worker died before: then this message was
			// its own, and is delivered again. Otherwise copies of a message, as
			// reconciliations send them, would be sent on as long as the task waits.
			if r.due != old.Due && !a.again { //guard:claim/another-wait false
				return nil, old, nil
			}
			return nil, old, a.send(ctx, []ready{{r.node, old.Attempt, old.Due}}, wait) //guard:claim/too-early return nil, old, nil
		}
	case old.Status == engine.Running && old.Nonce != "" && !a.leased(old, now):
		return a.takeOver(ctx, r, old, now)
	}
	// A message that finds a live lease is done. If the owner dies, the next
	// reconciliation finds the expired lease.
	return nil, old, nil
}

// takeOver starts a new attempt in place of one whose worker was lost. It does
// not count as a retry, but the tenth ends the task. From the third on the new
// attempt is delayed: a task that kills its workers must not do so as fast as
// workers are started. A suspended attempt is resumed by the new one.
func (a *attempts) takeOver(ctx context.Context, r ready, old *runstate.Node, now time.Time) (mine, other *runstate.Node, err error) {
	if a.flow == nil {
		_ = a.load(ctx) // only for the task's name in the log
	}
	nonce := a.ProcessID + "." + ids.Token(9)
	end := runstate.Attempt{
		Attempt: old.Attempt, Status: engine.Failed, StartedAt: old.StartedAt, EndedAt: millis(now),
		ErrorType: executor.WorkerLost, Error: "The worker that ran this attempt was lost.",
	}
	do := []table.Action{
		table.Set(runstate.NodeLost, old.Lost+1), //guard:take-over/count drop operand 2
		table.Set(runstate.NodeChain, a.chain), table.Remove(runstate.NodeUnlogged),
	}
	ends := old.Lost+1 >= MaxLost //guard:take-over/tenth off +1
	//guard:take-over/held-back false
	held := !ends && !old.Suspended && old.Lost+1 >= FewLost
	due := millis(now.Add(HoldBack))
	switch {
	case ends:
		do = append(do,
			table.Set(runstate.NodeStatus, string(engine.Failed)),
			table.Set(runstate.NodeErrorType, end.ErrorType),
			table.Set(runstate.NodeError, fmt.Sprintf("The worker was lost %d times while it ran this task.", MaxLost)),
			table.Set(runstate.NodeEnded, int64(millis(now))),
			table.Remove(runstate.NodeLease),
		)
	case held:
		do = append(do,
			table.Append(runstate.NodeHistory, end),
			table.Set(runstate.NodeStatus, string(engine.Queued)),
			table.Set(runstate.NodeAttempt, old.Attempt+1), //guard:take-over/held-attempt drop operand 2
			table.Set(runstate.NodeDue, int64(due)),
			table.Set(runstate.NodeReason, fmt.Sprintf("Its worker was lost %d times. It is tried again after %s.", old.Lost+1, due)),
			table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeStarted),
			table.Remove(runstate.NodeDeferred), table.Remove(runstate.NodeAnnounced), table.Remove(runstate.NodeSlot),
		)
	default:
		do = append(do,
			table.Append(runstate.NodeHistory, end),
			table.Set(runstate.NodeAttempt, old.Attempt+1), //guard:take-over/attempt drop operand 2
			table.Set(runstate.NodeNonce, nonce),
			table.Set(runstate.NodeLease, int64(millis(now.Add(Lease)))),
			table.Remove(runstate.NodeDeferred), table.Remove(runstate.NodeAnnounced), table.Remove(runstate.NodeReason),
		)
		if !old.Suspended { //guard:take-over/suspended true
			do = append(do, table.Set(runstate.NodeStarted, int64(millis(now))))
		}
	}
	item, err := a.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(a.org, a.id, r.node),
		Do:  do,
		// Not if it was renewed meanwhile: then its worker is alive.
		If: table.And(
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:take-over/running drop
			table.Eq(runstate.NodeNonce, old.Nonce),               //guard:take-over/nonce drop
			table.Eq(runstate.NodeLease, int64(old.LeaseUntil)),   //guard:take-over/renewed drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		// Its worker completed it after all, or another worker took it over.
		now := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, now); err != nil {
			return nil, nil, err
		}
		if now.Nonce == nonce { //guard:take-over/lost-answer false
			return now, nil, nil
		}
		if held && now.Nonce == "" && now.Due == due && now.Attempt == old.Attempt+1 { //guard:take-over/held-lost-answer false
			return nil, now, a.send(ctx, []ready{{r.node, now.Attempt, due}}, HoldBack)
		}
		return nil, now, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take over node %d: %w", r.node, err)
	}
	got := &runstate.Node{}
	if err := table.Unmarshal(item, got); err != nil {
		return nil, nil, err
	}
	a.Metrics.Count(telemetry.LeasesLost, a.tier())
	lost := a.subjectOf(r.node, old)
	a.endSpan(ctx, lost, engine.Failed, end.ErrorType, end.StartedAt)
	a.event(lost, runlog.TypeTaskLost, "warning", "%s", end.Error)
	if lost.task != nil && a.remote(lost.task) != nil {
		a.lostRunner(ctx, lost, "its lease was not renewed")
	}
	if ends || held { // otherwise the new attempt has it
		a.slotFreed(ctx, a.org, slots.Parse(old.Slot)) //guard:slot/taken-over drop
	}
	switch {
	case ends:
		a.countTask(got.Status)
		return nil, got, nil
	case held:
		return nil, got, a.send(ctx, []ready{{r.node, got.Attempt, due}}, HoldBack) //guard:take-over/held-message return nil, got, nil
	}
	return got, nil, nil
}

// from returns the condition of a step that changes an item's status to
// another, from the table of transitions. It does not hold for an item without
// a status.
func from(step engine.Step, to engine.Status) table.Cond {
	var names []string
	for _, s := range engine.From(step, to) {
		if s != "" {
			names = append(names, string(s))
		}
	}
	return table.In(runstate.NodeStatus, names...)
}
