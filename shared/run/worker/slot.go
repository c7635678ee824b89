package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

const (
	freers     = 16               // writes at once when a run that is stopped gives up its slots
	fillTime   = 20 * time.Second // of filling free slots
	passTries  = 4                // nodes that are tried for a slot that got free
	admitted   = "It has a slot, and its sandbox is about to be started."
	waitsForIt = "Its workspace runs %d Python tasks, as many as its limit allows (running-tasks). It begins when one of them ends."
	waitsShare = "Its workspace may run %d Python tasks at this time, its share of the %d of all workspaces (running-tasks-of-all). It begins when one of them ends, or when its share grows."
	growth     = 4 // slots that a completion takes besides its own, when the workspace may hold more
)

// whyWaits is the reason in the item of an attempt that finds no slot.
func whyWaits(limit slots.Limit) string {
	if limit.All > 0 { //guard:share/reason false
		return fmt.Sprintf(waitsShare, limit.Slots, limit.All)
	}
	return fmt.Sprintf(waitsForIt, limit.Slots)
}

// slotFor returns the slot of an attempt that is to be handed off: the one that
// its item has, or a free one; none if there is none.
func (a *attempts) slotFor(ctx context.Context, w *attempt) (slot slots.Slot, took bool, err error) {
	if slot = slots.Parse(w.item.Slot); !slot.None() {
		return slot, false, nil
	}
	slot, err = a.slots.Take(ctx, a.org, a.id, w.node)
	return slot, !slot.None(), err
}

// queueUp lets a claimed attempt wait for a slot: it is QUEUED, without a lease,
// and nothing is done about it until a slot gets free.
func (a *attempts) queueUp(ctx context.Context, w *attempt) error {
	entry := slots.Waiting(a.org, a.id, w.node, a.Clock.Now())
	item, err := a.conclude(ctx, w, engine.Queued, []table.Action{
		table.Set(runstate.DuePK, entry.DuePK), table.Set(runstate.DueSK, entry.DueSK),
		table.Set(runstate.NodeReason, whyWaits(a.slots.Limit(ctx, a.org))),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeStarted), table.Remove(runstate.NodeDue),
	}, func(item *runstate.Node) bool {
		return item.DueSK == entry.DueSK //guard:slot/lost-answer false
	})
	if err != nil || item == nil {
		return err
	}
	// The last one may have got free before this node was in the line.
	slot, err := a.slots.Peek(ctx, a.org, a.id, w.node)
	if err != nil {
		return err
	}
	if slot.None() { //guard:slot/peek true
		return a.grow(ctx, a.org, growth)
	}
	return a.give(ctx, a.org, slot, slots.Waiter{Run: a.id, Node: w.node})
}

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

// freeOwn frees the slot of an attempt that the worker has ended or released.
func (a *attempts) freeOwn(ctx context.Context, w *attempt) {
	slot := slots.Parse(w.item.Slot)
	if a.heir != nil && a.heir.slot == slot {
		a.heir.slot = slots.Slot{}
	}
	a.slotFreed(ctx, a.org, slot)
}

// freeAfter frees the slot of an attempt that a runner has ended, unless the
// runner makes another one with it. After an error it may do so all the same, as
// by an answer that was lost, and the runner delivers its result again.
func (a *attempts) freeAfter(ctx context.Context, w *attempt, err error) {
	switch {
	case a.heir == nil:
		a.freeOwn(ctx, w)
	//guard:slot/passed-on true
	//guard:slot/half-way drop operand 2
	case a.heir.next == nil && err == nil:
		a.slotFreed(ctx, a.org, a.heir.slot)
	}
}

// stillHeld returns a slot if its holder has it, otherwise none.
func (s *session) stillHeld(ctx context.Context, slot slots.Slot) (slots.Slot, error) {
	if !s.slots.Limits(s.org) || slot.None() {
		return slots.Slot{}, nil
	}
	held, err := s.slots.Holds(ctx, s.org, slot)
	if err != nil || !held {
		return slots.Slot{}, err
	}
	return slot, nil
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

// giveUpSlots frees the slots of a stopped run's nodes that have not begun, and
// removes those that wait from the line.
func (s *session) giveUpSlots(ctx context.Context, items map[engine.Node]*runstate.Node) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(freers)
	for n, item := range items {
		switch {
		case item.Status.Terminal():
		case item.DuePK != "": //guard:slot/stopped-line false
			g.Go(func() error { return s.leaveLine(ctx, n) })
		case item.Slot != "": //guard:slot/stopped false
			g.Go(func() error { return s.freeSlot(ctx, s.org, slots.Parse(item.Slot)) })
		}
	}
	return g.Wait()
}

// slotsAgain frees what dead processes left of the workspace's slots, and gives free
// ones to nodes that wait, if nodes of the run do.
func (r *reconciler) slotsAgain(ctx context.Context) error {
	if !r.slots.Limits(r.org) {
		return r.lineEnds(ctx)
	}
	kept, uses, waits := map[string]bool{}, false, false
	for _, item := range r.items {
		uses = uses || item.Slot != ""
		waits = waits || item.DuePK != "" && !item.Status.Terminal()
		// That of an attempt that has just ended may be passed on by its completion.
		if item.Slot != "" && (!item.Status.Terminal() || r.now.Sub(item.EndedAt.Time()) < ReconcileEvery) { //guard:slot/kept drop operand 2.2
			kept[item.Slot] = true
		}
	}
	if !uses && !waits {
		return nil
	}
	held, err := r.slots.Held(ctx, r.org)
	if err != nil {
		return err
	}
	ended, err := r.endedRuns(ctx, held, waits)
	if err != nil {
		return err
	}
	for _, slot := range held {
		left := ended[slot.Run] || slot.Run == r.id && !kept[slot.String()]
		//guard:slot/left false
		//guard:slot/young drop operand 2
		if left && r.now.Sub(slot.Since()) > ReconcileEvery {
			r.Log.WarnContext(ctx, "slot that was left is freed", "number", slot.Number, "of", slot.Run)
			if err := r.slots.Release(ctx, r.org, slot); err != nil {
				return err
			}
		}
	}
	if !waits {
		return nil
	}
	r.wants(ReconcileEvery)
	return r.fillSlots(ctx, r.org)
}

// lineEnds lets all nodes of the run that wait for a slot begin, when their
// workspace has no limit any more.
func (r *reconciler) lineEnds(ctx context.Context) error {
	until := r.now.Add(fillTime)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(freers)
	for n, item := range r.items {
		if item.DuePK == "" || item.Status.Terminal() {
			continue
		}
		r.wants(ReconcileEvery)
		if r.Clock.Now().After(until) {
			break
		}
		g.Go(func() error { //guard:slot/unlimited drop
			_, err := r.admit(ctx, r.org, slots.Waiter{Run: r.id, Node: n}, slots.Slot{})
			return err
		})
	}
	return g.Wait()
}

// endedRuns returns the runs among those that hold slots that have ended.
func (r *reconciler) endedRuns(ctx context.Context, held []slots.Slot, wanted bool) (map[string]bool, error) {
	ended := map[string]bool{}
	if !wanted {
		return ended, nil
	}
	var keys []table.Key
	for _, slot := range held {
		if slot.Run != r.id && !ended[slot.Run] {
			ended[slot.Run] = true // unless its record says otherwise
			keys = append(keys, runstate.RunKey(r.org, slot.Run))
		}
	}
	items, err := r.Table.BatchGet(ctx, keys, table.Only(runstate.RunStatus))
	if err != nil {
		return nil, fmt.Errorf("read runs that hold slots: %w", err)
	}
	for _, item := range items {
		_, run, _ := runstate.ParseRunKey(item.Key().PK)
		ended[run] = engine.Status(item[runstate.RunStatus].Str()).RunEnded()
	}
	return ended, nil
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
