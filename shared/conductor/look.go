package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// chainLook is the chain of what a look settles by itself.
const chainLook = "look"

// grace is how long after its time a waiting node is left to its own message.
const grace = 10 * time.Second

// look reads a run's nodes and applies the plan again: it mends whatever a
// worker that died, or a message that was lost, left undone. Of a run that has
// stalled it enqueues also what may merely be waiting for a worker; not so
// after a restart, for then the queues have kept every message, and a server
// that is restarted again and again would multiply them.
func (s *session) look(ctx context.Context, restarted bool) error {
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
		return s.finalize(ctx) //guard:look/finalize return nil
	case s.run.Fenced(now) != "":
		if err := s.settle(ctx); err != nil || s.run.Status.RunEnded() { //guard:look/stopped drop
			return err
		}
		return s.postpone(ctx, now, LookEvery)
	case s.run.Status == engine.Queued:
		idle := now.Sub(s.run.CreatedAt.Time())
		if !restarted && idle > LookEvery/2 { //guard:look/dispatch false
			start := []events.Run{{Kind: events.RunStart}}
			if err := s.sendAll(ctx, events.Tasks(s.run.Mode), start, 0); err != nil {
				return err
			}
		}
		return s.postpone(ctx, now, idle)
	}
	var err error
	if s.items, err = runstate.LoadNodes(ctx, s.Table, s.run, s.flow.plan, true); err != nil {
		return err
	}
	// While there is progress, nodes without an item are waiting for a worker
	// and not lost, so they are not enqueued twice.
	nodes, idle, due := len(s.items), s.idle(now), s.nextDue(now)
	if err := s.repair(ctx, now, !restarted && idle >= LookEvery); err != nil { //guard:look/restarts arg 3 true
		return err
	}
	if s.run.Status.RunEnded() {
		return nil
	}
	// A look at a large run is dear, because it reads every node.
	return s.postpone(ctx, now, min(max(idle, time.Duration(nodes)*20*time.Millisecond), due))
}

// nextDue is how long it is until a waiting node should have been taken up, if
// its message is not lost.
func (s *session) nextDue(now time.Time) time.Duration {
	next := LookMost
	for _, item := range s.items {
		if wait := item.Due.Time().Sub(now); item.Due != 0 && wait > 0 {
			next = min(next, wait+2*grace)
		}
	}
	return next
}

// idle is how long nothing of the run has begun or ended.
func (s *session) idle(now time.Time) time.Duration {
	last := s.run.StartedAt
	for _, item := range s.items {
		last = max(last, item.StartedAt, item.EndedAt)
	}
	return now.Sub(last.Time())
}

// repair walks again from each finished node that does not show in what it
// leads to, and enqueues what is due.
func (s *session) repair(ctx context.Context, now time.Time, stalled bool) error {
	items := s.items
	var again []done
	if start := (done{node: events.Start}); s.missed(start, stalled) { //guard:look/roots false
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
				if err := s.expandAll(ctx, n, *item.Width); err != nil { //guard:look/instances drop
					return err
				}
			}
		case item.Status == engine.Running && item.Nonce != "":
			if !s.held(item, now) { //guard:look/expired false
				s.ready = append(s.ready, ready{n, item.Attempt})
			}
		//guard:look/due false
		//guard:look/grace drop operand 2
		case item.Due != 0 && now.Sub(item.Due.Time()) > grace:
			s.ready = append(s.ready, ready{n, item.Attempt})
		}
	}
	s.items = mapsOnly(s.flow.plan, items) // what follows writes: read anew
	if err := s.walk(ctx, again...); err != nil || s.run.Status.RunEnded() {
		return err
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
	//guard:look/joins false
	//guard:look/half-a-join true
	return d, item.Sets().Count() >= s.flow.plan.JoinNeed(n, d.width), nil
}

// missed reports whether a finished node does not show in one it leads to. A
// task that is ready and has no item may be waiting for a worker, so it counts
// only in a run that stalled.
func (s *session) missed(d done, stalled bool) bool {
	if d.node == s.flow.plan.OnFailure() { //guard:look/on_failure drop
		return true // the run would be over
	}
	from, _ := s.refOf(d.node)
	for _, t := range s.targets(d) {
		ref, err := s.flow.plan.Ref(t.Node)
		if err != nil {
			continue
		}
		item := s.items[t.Node]
		if t.Need > 1 && (item == nil || !item.Noted(d.node)) { //guard:look/untold false
			return true
		}
		complete := t.Need <= 1 || item.Sets().Count() >= t.Need
		decided := item != nil && item.Status != ""
		switch {
		case !complete:
		case ref.Kind == engine.KindEnd:
			//guard:look/END and s.run.Worst != nil
			//guard:look/on_failure-lost drop operand 2
			if s.run.Worst == nil || stalled {
				return true // END fired, and the run did not end
			}
		case ref.Kind == engine.KindJoin:
			// A join with more children has an item of its own to look at.
			//guard:look/join false
			if t.Need == 1 && s.missed(done{node: t.Node, outcome: d.outcome, width: d.width}, stalled) {
				return true
			}
		case from.Kind == engine.KindJoin && from.Task == ref.Task:
			if decided && !item.Status.Terminal() { //guard:look/map false
				return true // all instances are finished, the map is not
			}
		case !decided && stalled: //guard:look/ready false
			return true
		}
	}
	return false
}

// postpone writes when the run is to be looked at next: after a while within
// LookEvery and LookMost.
func (s *session) postpone(ctx context.Context, now time.Time, after time.Duration) error {
	next := now.Add(min(max(LookEvery, after), LookMost)) //guard:look/next arg 1 100 * LookMost
	//guard:look/deadline false
	if s.run.Deadline != 0 && s.run.Deadline.Time().After(now) && s.run.Deadline.Time().Before(next) {
		next = s.run.Deadline.Time()
	}
	due := runstate.DueAt(s.org, s.id, next)
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do:  []table.Action{table.Set(runstate.DuePK, due.DuePK), table.Set(runstate.DueSK, due.DueSK)},
		//guard:look/postponed drop
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
