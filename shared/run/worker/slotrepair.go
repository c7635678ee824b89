package worker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

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
