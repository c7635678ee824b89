package worker

import (
	"context"
	"fmt"
	"time"

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
