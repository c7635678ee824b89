package worker

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

// give gives a slot to a node that waits. If that waits no longer, the slot is
// free for another one.
func (c *Worker) give(ctx context.Context, org string, slot slots.Slot, to slots.Waiter) error {
	ok, err := c.admit(ctx, org, to, slot)
	if err == nil && !ok {
		err = c.freeSlot(ctx, org, slot)
	}
	return err
}

// freeSlot passes a slot on to a node that waits, or frees it. If more nodes of the
// workspace may run than did, others of them get slots, too.
func (c *Worker) freeSlot(ctx context.Context, org string, slot slots.Slot) error {
	if !c.slots.Limits(org) || slot.None() {
		return nil
	}
	for range passTries {
		to, waits, err := c.slots.Next(ctx, org, slot.Number)
		if err != nil {
			return errors.Join(err, c.slots.Release(ctx, org, slot))
		}
		if !waits { //guard:slot/pass true
			break
		}
		next, err := c.slots.Pass(ctx, org, slot, to.Run, to.Node)
		if err != nil {
			return err
		}
		if next.None() { // it is above what the workspace may hold by now
			if err := c.slots.Release(ctx, org, slot); err != nil {
				return err
			}
			//guard:share/instead when false
			next, err = c.slots.Take(ctx, org, to.Run, to.Node)
			if err != nil || next.None() {
				return err
			}
		}
		slot = next
		ok, err := c.admit(ctx, org, to, slot)
		if err != nil {
			return err
		}
		if ok {
			return c.grow(ctx, org, growth)
		}
	}
	return c.slots.Release(ctx, org, slot)
}

// grow gives nodes that wait slots that their workspace may hold by now besides
// those that it held.
func (c *Worker) grow(ctx context.Context, org string, most int) error {
	for i := range c.slots.Room(ctx, org, most) {
		to, waits, err := c.slots.Next(ctx, org, i)
		if err != nil || !waits {
			return err
		}
		slot, err := c.slots.Take(ctx, org, to.Run, to.Node)
		if err != nil || slot.None() {
			return err
		}
		if ok, err := c.admit(ctx, org, to, slot); err != nil {
			return err
		} else if !ok {
			if err := c.slots.Release(ctx, org, slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// slotRenewed follows a heartbeat of an attempt that holds a slot. What fails is
// done by the next one.
func (c *Worker) slotRenewed(ctx context.Context, org string) {
	if !c.slots.Limits(org) {
		return
	}
	c.slots.Tend(ctx, org)
	if err := c.grow(ctx, org, 1); err != nil { //guard:share/heartbeat arg 3 0
		c.Log.WarnContext(ctx, "slots not taken yet", "error", err)
	}
}

// slotFreed is freeSlot for an attempt that is over: what fails is left to a
// reconciliation.
func (c *Worker) slotFreed(ctx context.Context, org string, slot slots.Slot) {
	if err := c.freeSlot(ctx, org, slot); err != nil {
		c.Log.WarnContext(ctx, "slot not freed yet", "error", err)
	}
}

// admit ends the wait of a node that has got a slot: its runner is started, or it
// is enqueued if this process starts none. It returns false if the node does not
// wait any more, or must not begin.
func (c *Worker) admit(ctx context.Context, org string, to slots.Waiter, slot slots.Slot) (bool, error) {
	s := c.session(org, to.Run)
	a := &attempts{values: values{s}}
	if err := s.load(ctx); errors.Is(err, errNoRun) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if s.run.Fenced(c.Clock.Now()) != "" { //guard:slot/fence false
		return false, s.leaveLine(ctx, to.Node)
	}
	task, err := s.task(to.Node)
	if err != nil {
		return false, err
	}
	remote, now, nonce := c.remote(task), c.Clock.Now(), ids.Token(9)
	do := []table.Action{
		table.Set(runstate.NodeSlot, slot.String()), table.Remove(runstate.DuePK), table.Remove(runstate.DueSK),
	}
	if remote != nil {
		do = append(do, table.Set(runstate.NodeHanded, nonce), table.Set(runstate.NodeDue, int64(millis(now.Add(HandOff)))), table.Set(runstate.NodeReason, dispatched))
	} else {
		do = append(do, table.Set(runstate.NodeDue, int64(millis(now))), table.Set(runstate.NodeReason, admitted))
	}
	stored, err := s.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(org, to.Run, to.Node), Do: do,
		If: table.Exists(runstate.DuePK), //guard:slot/waits drop
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		if stored = failed.Old; stored[runstate.NodeSlot].Str() != slot.String() { //guard:slot/admit-lost-answer true
			return false, nil
		}
	} else if err != nil {
		return false, err
	}
	item := &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return false, err
	}
	switch {
	case remote != nil && item.Handed != nonce:
		return true, nil // its runner was started again, and has begun
	case remote != nil:
		return true, a.dispatch(ctx, s.subjectOf(to.Node, item), remote)
	}
	return true, s.send(ctx, []ready{{to.Node, item.Attempt, item.Due}}, 0) //guard:slot/message return true, nil
}

// leaveLine removes a node that must not begin from the line.
func (s *session) leaveLine(ctx context.Context, n engine.Node) error {
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n), Do: []table.Action{table.Remove(runstate.DuePK), table.Remove(runstate.DueSK)},
		If: table.Exists(runstate.DuePK),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("leave the line for slots: %w", err)
	}
	return nil
}

// fillSlots gives the free slots of a workspace to nodes that wait.
func (c *Worker) fillSlots(ctx context.Context, org string) error {
	free, err := c.slots.Free(ctx, org)
	if err != nil {
		return err
	}
	until := c.Clock.Now().Add(fillTime)
	for _, number := range free {
		to, waits, err := c.slots.Next(ctx, org, number)
		if err != nil || !waits || c.Clock.Now().After(until) {
			return err
		}
		slot, err := c.slots.TakeNumber(ctx, org, number, to.Run, to.Node)
		if err != nil {
			return err
		}
		if slot.None() {
			continue
		}
		if err := c.give(ctx, org, slot, to); err != nil {
			return err
		}
	}
	return nil
}
