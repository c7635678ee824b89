package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/shared/clock"
	"millrace/shared/engine"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// chainLook is the chain of what a look settles by itself.
const chainLook = "look"

// grace is how long after its time a waiting node is left to its own message.
const grace = 10 * time.Second

// look reads a run's nodes and applies the plan again: it mends whatever a
// worker that died, or a message that was lost, left undone. force enqueues
// also what may merely be waiting for a worker.
func (s *session) look(ctx context.Context, force bool) error {
	s.chain, s.again = chainLook, true
	if err := s.load(ctx); err != nil {
		if errors.Is(err, table.ErrNotFound) {
			return nil // a message of a run that was never accepted
		}
		return err
	}
	now := s.Clock.Now()
	switch {
	case s.run.Status.RunEnded():
		return s.finalize(ctx)
	case s.run.Fenced(now) != "":
		if err := s.settle(ctx); err != nil || s.run.Status.RunEnded() {
			return err
		}
		return s.postpone(ctx, now, 0)
	case s.run.Status == engine.Queued:
		if force || now.Sub(s.run.CreatedAt.Time()) > LookEvery/2 {
			start := []events.Run{{Kind: events.RunStart}}
			if err := s.sendAll(ctx, events.Tasks(s.run.Mode), start, 0); err != nil {
				return err
			}
		}
		return s.postpone(ctx, now, 0)
	}
	var err error
	if s.items, err = runstate.LoadNodes(ctx, s.Table, s.run, s.flow.plan, true); err != nil {
		return err
	}
	if err := s.repair(ctx, now, force || s.stalled(now)); err != nil {
		return err
	}
	if s.run.Status.RunEnded() {
		return nil
	}
	return s.postpone(ctx, now, len(s.items))
}

// stalled reports whether nothing happened for a whole interval. While there is
// progress, nodes without an item are waiting for a worker and not lost, so
// they are not enqueued twice.
func (s *session) stalled(now time.Time) bool {
	last := max(s.run.StartedAt, s.run.LookedAt)
	for _, item := range s.items {
		last = max(last, item.StartedAt, item.EndedAt)
	}
	return now.Sub(last.Time()) >= LookEvery
}

// repair walks again from each finished node that does not show in what it
// leads to, and enqueues what is due.
func (s *session) repair(ctx context.Context, now time.Time, stalled bool) error {
	items := s.items
	var again []done
	if start := (done{node: events.Start}); s.missed(start, stalled) {
		again = append(again, start)
	}
	for _, n := range slices.Sorted(maps.Keys(items)) {
		item := items[n]
		ref, err := s.flow.plan.Ref(n)
		if err != nil {
			return err
		}
		switch {
		case item.Status.Terminal() || ref.Kind == engine.KindJoin:
			d, whole, err := s.spread(ctx, n, ref, item)
			if err != nil {
				return err
			}
			if whole && s.missed(d, stalled) {
				again = append(again, d)
			}
		case item.Status == engine.Running && item.Width != nil && item.Nonce == "":
			if stalled {
				if err := s.expandAll(ctx, n, *item.Width); err != nil {
					return err
				}
			}
		case item.Status == engine.Running && item.Nonce != "":
			if !s.held(item, now) {
				s.ready = append(s.ready, ready{n, item.Attempt})
			}
		case item.Due != 0 && now.Sub(item.Due.Time()) > grace || item.Due != 0 && stalled:
			s.ready = append(s.ready, ready{n, item.Attempt})
		}
	}
	s.items = mapsOnly(s.flow.plan, items) // what follows writes: read anew
	for _, d := range again {
		if err := s.walk(ctx, d); err != nil {
			return err
		}
		if s.run.Status.RunEnded() {
			return nil
		}
	}
	return s.send(ctx, distinct(s.ready), 0)
}

// expandAll makes all instances of a map ready that have no item yet.
func (s *session) expandAll(ctx context.Context, n engine.Node, width int) error {
	for p := 0; p*engine.FanWidth < width; p++ {
		if err := s.expandPart(ctx, n, width, p); err != nil {
			return err
		}
	}
	left := s.ready[:0]
	for _, r := range s.ready {
		if item := s.items[r.node]; item == nil || item.Status == "" {
			left = append(left, r)
		}
	}
	s.ready = left
	return nil
}

// spread is the done of a node's item; false if a join is not complete.
func (s *session) spread(ctx context.Context, n engine.Node, ref engine.Ref, item *runstate.Node) (done, bool, error) {
	if item.Status.Terminal() {
		d, err := s.finished(ctx, n, item)
		if err != nil {
			return done{}, false, err
		}
		return *d, true, nil
	}
	d := done{node: n}
	if ref.Task >= 0 {
		parent, err := s.mapItem(ctx, ref.Task)
		if err != nil {
			return d, false, err
		}
		d.width = *parent.Width
	}
	d.outcome = item.Sets().Worst()
	return d, item.Sets().Count() >= s.flow.plan.JoinNeed(n, d.width), nil
}

// missed reports whether a finished node does not show in one it leads to. A
// task that is ready and has no item may be waiting for a worker, so it counts
// only in a run that stalled.
func (s *session) missed(d done, stalled bool) bool {
	if d.node == s.flow.plan.OnFailure() {
		return true // the run would be over
	}
	from, _ := s.refOf(d.node)
	for _, t := range s.targets(d) {
		ref, err := s.flow.plan.Ref(t.Node)
		if err != nil {
			continue
		}
		item := s.items[t.Node]
		if t.Need > 1 && (item == nil || !item.Noted(d.node)) {
			return true
		}
		complete := t.Need <= 1 || item.Sets().Count() >= t.Need
		decided := item != nil && item.Status != ""
		switch {
		case !complete:
		case ref.Kind == engine.KindEnd:
			if s.run.Worst == nil || stalled {
				return true // END fired, and the run did not end
			}
		case ref.Kind == engine.KindJoin:
			// A join with more children has an item of its own to look at.
			if t.Need == 1 && s.missed(done{node: t.Node, outcome: d.outcome, width: d.width}, stalled) {
				return true
			}
		case from.Kind == engine.KindJoin && from.Task == ref.Task:
			if decided && !item.Status.Terminal() {
				return true // all instances are finished, the map is not
			}
		case !decided && stalled:
			return true
		}
	}
	return false
}

// postpone writes when the run is to be looked at next. Large runs are looked
// at less often, because a look reads every node.
func (s *session) postpone(ctx context.Context, now time.Time, nodes int) error {
	next := now.Add(min(max(LookEvery, time.Duration(nodes)*20*time.Millisecond), LookMost))
	if s.run.Deadline != 0 && s.run.Deadline.Time().After(now) && s.run.Deadline.Time().Before(next) {
		next = s.run.Deadline.Time()
	}
	due := runstate.DueAt(s.org, s.id, next)
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do: []table.Action{
			table.Set(runstate.DuePK, due.DuePK), table.Set(runstate.DueSK, due.DueSK),
			table.Set(runstate.RunLookedAt, int64(clock.ToMillis(now))),
		},
		If: table.In(runstate.RunStatus, string(engine.Queued), string(engine.Running), string(engine.CancellationRequested)),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("postpone look: %w", err)
	}
	return nil
}

// mapsOnly keeps the items of expanded maps, whose width never changes.
func mapsOnly(p *engine.Plan, items map[engine.Node]*runstate.Node) map[engine.Node]*runstate.Node {
	out := map[engine.Node]*runstate.Node{}
	for _, t := range p.Maps() {
		if item := items[engine.Node(t)]; item != nil && item.Width != nil && item.Status == engine.Running {
			out[engine.Node(t)] = item
		}
	}
	return out
}

func distinct(in []ready) []ready {
	seen := make(map[engine.Node]bool, len(in))
	out := in[:0]
	for _, r := range in {
		if !seen[r.node] {
			seen[r.node] = true
			out = append(out, r)
		}
	}
	return out
}
