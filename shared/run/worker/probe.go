package worker

import (
	"context"
	"math"
	"time"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Limits of the messages that reconciliations send for ready tasks that no
// worker has claimed: their message is lost, or waits in its queue.
const (
	firstProbe = time.Minute      // age at the first one if the queue is empty
	slowProbe  = 15 * time.Minute // age at the first one otherwise
	firstPace  = 2                // factor of the age at each further one if the queue is empty
	mostPace   = 4 * time.Minute  // maximum growth of the age
	slowPace   = 4                // factor of the age at each further one otherwise
	maxProbes  = 10               // nodes of one reconciliation if the queue is not empty
)

// probe decides whether messages are lost. If the queue is empty, a message
// that was not received for a minute is lost. Otherwise a few messages are sent
// again, at exponentially growing ages, so that a backlog is not multiplied.
type probe struct {
	*session
	now    time.Time
	probed time.Time     // the last reconciliation that sent messages again
	sent   bool          // this reconciliation sends messages again
	first  time.Duration // firstProbe or slowProbe; 0 before the queue's depth is read
	left   int           // number of nodes that may still be sent
}

func (d *driver) newProbe(now time.Time) *probe {
	return &probe{session: d.session, now: now, probed: d.run.ProbedAt.Time()}
}

// lost reports whether to send a message again that should have been received
// at since.
func (p *probe) lost(ctx context.Context, since clock.Millis) (bool, error) {
	age := p.now.Sub(since.Time())
	if age < firstProbe {
		return false, nil
	}
	if p.first == 0 {
		waiting, err := p.Queues.Depth(ctx, events.Tasks(p.run.Mode))
		if err != nil {
			return false, err
		}
		p.first, p.left = firstProbe, math.MaxInt
		if waiting+queue.Parked(ctx) > 0 { //guard:probe/backlog false
			p.first, p.left = slowProbe, maxProbes
		}
	}
	last := p.first // the last age at which it was judged
	for at := last; at <= age; at = p.after(at) {
		last = at //guard:probe/doubles when at == p.first
	}
	before := p.probed.Sub(since.Time())
	if last > age || last <= before || p.left <= 0 { //guard:probe/once drop operand 2
		return false, nil
	}
	p.left-- //guard:probe/bounded drop
	p.sent = true
	return true, nil
}

// after returns the next age at which a message is judged.
func (p *probe) after(at time.Duration) time.Duration {
	if p.first == slowProbe {
		return at * slowPace
	}
	return min(at*firstPace, at.Truncate(mostPace)+mostPace) //guard:probe/paced arg 2 at*firstPace
}

// noted returns the actions of a reconciliation that sent messages again.
func (p *probe) noted() []table.Action {
	if !p.sent {
		return nil
	}
	return []table.Action{table.Set(runstate.RunProbed, int64(millis(p.now)))} //guard:probe/noted return nil
}

// again returns the time until the message is judged again. If the queue is not
// empty that may change soon.
func (p *probe) again(since clock.Millis) time.Duration {
	age := p.now.Sub(since.Time())
	if p.first == slowProbe { //guard:probe/backlog-again false
		return max(ReconcileEvery, age/2)
	}
	at := firstProbe
	for at <= age {
		at = p.after(at)
	}
	return at - age
}

// unclaimedSince reports whether to send the message of a ready task again that
// no worker has claimed since a time, and requests the next reconciliation for
// it.
func (r *reconciler) unclaimedSince(ctx context.Context, since clock.Millis) (bool, error) {
	if r.restarted { //guard:reconcile/restarts false
		r.wants(firstProbe)
		return false, nil
	}
	lost, err := r.probe.lost(ctx, since)
	r.wants(r.probe.again(since))
	return lost, err
}

// unclaimed decides ready tasks without an item again: at once if the decision
// ends them, or if their message is lost where they are to run.
func (r *reconciler) unclaimed(ctx context.Context) error {
	for i := range r.flow.plan.Len() {
		n := engine.Node(i)
		if item := r.items[n]; item != nil && item.Status != "" {
			continue
		}
		since, sets, ready := r.readySince(i)
		if !ready {
			continue
		}
		lost, err := r.unclaimedSince(ctx, since)
		if err != nil {
			return err
		}
		if !lost && r.now.Sub(since.Time()) < grace {
			continue
		}
		before := len(r.graph.ready)
		d, err := r.graph.decide(ctx, n, sets)
		switch {
		case err != nil:
			return err
		case d != nil:
			r.again = append(r.again, *d)
		case !lost: //guard:reconcile/ready true
			r.graph.ready = r.graph.ready[:before]
		}
	}
	return nil
}

// readySince returns when the last dependency of a task finished, and the
// outcomes; false if not all have.
func (r *reconciler) readySince(task int) (since clock.Millis, sets engine.Sets, ok bool) {
	since = r.run.StartedAt
	for _, d := range r.flow.plan.Def(task).Deps {
		item := r.items[engine.Node(d)]
		if item == nil || !item.Status.Terminal() {
			return 0, sets, false
		}
		since = max(since, item.EndedAt)
		sets.Add(item.Outcome())
	}
	return since, sets, true
}

// instances begins the instances of a map that have no item again, if their
// messages are lost.
func (r *reconciler) instances(ctx context.Context, n engine.Node, item *runstate.Node) error {
	task, width := int(n), *item.Width
	for part := 0; part*r.flow.plan.FanWidth() < width; part++ {
		missing := false
		for i := part * r.flow.plan.FanWidth(); i < min((part+1)*r.flow.plan.FanWidth(), width) && !missing; i++ {
			of := r.items[r.flow.plan.Instance(task, i)]
			missing = of == nil || of.Status == ""
		}
		if !missing {
			continue
		}
		lost, err := r.unclaimedSince(ctx, item.StartedAt)
		if err != nil {
			return err
		}
		if !lost { //guard:reconcile/instances true
			return nil
		}
		if err := r.expandAgain(ctx, n, width, part); err != nil {
			return err
		}
	}
	return nil
}

// expandAgain makes the instances of a part ready that have no item.
func (r *reconciler) expandAgain(ctx context.Context, n engine.Node, width, part int) error {
	before := len(r.graph.ready)
	if err := r.graph.expandPart(ctx, n, width, part); err != nil {
		return err
	}
	kept := r.graph.ready[:before]
	for _, next := range r.graph.ready[before:] {
		if item := r.items[next.node]; item != nil && item.Status != "" {
			continue
		}
		if len(kept) > before && r.probe.left <= 0 {
			break
		}
		r.probe.left--
		kept = append(kept, next)
	}
	r.graph.ready = kept
	return nil
}
