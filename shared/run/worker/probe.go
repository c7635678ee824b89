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

// The bounds of what reconciliations send for tasks that are ready and that nobody has
// taken up: their message is lost, or it waits in its queue.
const (
	firstProbe = time.Minute      // age at the first, where nothing waits in the queue
	slowProbe  = 15 * time.Minute // the same where something does
	firstPace  = 2                // how many times the age it is at each further one, where nothing waits
	mostPace   = 4 * time.Minute  // and the most that it grows
	slowPace   = 4                // how many times the age it is where something does
	maxProbes  = 10               // nodes of one reconciliation where something waits
)

// probe judges whether messages are lost. The queue tells most: where nothing
// waits, what was not taken up for a minute is lost. Where something does it is
// tried with a few, at ages that multiply, so that a backlog is not multiplied.
type probe struct {
	*session
	now    time.Time
	probed time.Time     // the last reconciliation that sent messages again
	sent   bool          // this one does
	first  time.Duration // firstProbe or slowProbe; 0 while the queue was not asked
	left   int           // nodes that may still be sent
}

func (d *driver) newProbe(now time.Time) *probe {
	return &probe{session: d.session, now: now, probed: d.run.ProbedAt.Time()}
}

// lost reports whether a message that should have been taken up since a time is
// to be sent again.
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
	last := p.first // of the ages that it had
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

// after is the age at which a message is judged next.
func (p *probe) after(at time.Duration) time.Duration {
	if p.first == slowProbe {
		return at * slowPace
	}
	return min(at*firstPace, at.Truncate(mostPace)+mostPace) //guard:probe/paced arg 2 at*firstPace
}

// noted is what a reconciliation that sent messages again writes.
func (p *probe) noted() []table.Action {
	if !p.sent {
		return nil
	}
	return []table.Action{table.Set(runstate.RunProbed, int64(millis(p.now)))} //guard:probe/noted return nil
}

// again is how long it is until it is worth while to judge a message again. Where
// the queue holds others that may change soon.
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

// unclaimedSince judges a task that is ready since a time and that nobody has
// taken up; it asks for the next reconciliation at it.
func (r *reconciler) unclaimedSince(ctx context.Context, since clock.Millis) (bool, error) {
	if r.restarted { //guard:reconcile/restarts false
		r.wants(firstProbe)
		return false, nil
	}
	lost, err := r.probe.lost(ctx, since)
	r.wants(r.probe.again(since))
	return lost, err
}

// unclaimed decides again the tasks that are ready and have no item: at once
// where that ends them, where they are to run if their message is lost.
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

// readySince tells when the last dependency of a task finished, and with what
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

// instances begins again the instances of a map that have no item, if their
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

// expandAgain makes those instances of a part ready that have no item.
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
