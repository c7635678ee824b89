package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// chainReconcile is the chain of nodes that a reconciliation decides by itself.
const chainReconcile = "reconcile"

// grace is how long after its due time something is left to its own message.
const grace = 10 * time.Second

// reconcileCost is the delay of the next reconciliation for each node read.
const reconcileCost = 6 * time.Millisecond

// reconciler compares a run's items with its plan, and repairs what died
// workers or lost messages left undone.
type reconciler struct {
	*session
	graph *graph
	items map[engine.Node]*runstate.Node
	now   time.Time
	probe *probe
	// restarted means that the queues have kept all messages, as after a restart
	// of the only process that works on the run. A server that restarts again and
	// again would otherwise multiply them.
	restarted bool
	again     []done        // to be propagated again
	next      time.Duration // time until the next useful reconciliation
}

// reconcile reconciles a run: it repairs what was lost, and ends a stopped run.
func (d *driver) reconcile(ctx context.Context, restarted bool) error {
	d.chain, d.again = chainReconcile, true
	if err := d.load(ctx); err != nil {
		if errors.Is(err, errNoRun) {
			return nil // the message of a run that was not accepted
		}
		return err
	}
	now := d.Clock.Now()
	switch {
	case d.run.Status.RunEnded():
		return d.lifecycle.archive(ctx) //guard:reconcile/finalize return nil
	case d.run.Fenced(now) != "":
		if err := d.lifecycle.stop(ctx); err != nil || d.run.Status.RunEnded() { //guard:reconcile/stopped drop
			return err
		}
		return d.postpone(ctx, now, ReconcileEvery)
	}
	if !restarted && now.Sub(d.run.ReconciledAt.Time()) < grace { //guard:reconcile/again false
		return nil // one of several messages, such as those of a late tick
	}
	r := &reconciler{session: d.session, graph: d.graph, now: now, probe: d.newProbe(now), restarted: restarted, next: ReconcileMost}
	if d.run.Status == engine.Queued {
		if err := r.dispatch(ctx); err != nil {
			return err
		}
		return d.postpone(ctx, now, r.next, r.probe.noted()...)
	}
	var err error
	if r.items, err = runstate.LoadNodes(ctx, d.Table, d.run, d.flow.plan, true, runstate.Light); err != nil {
		return err
	}
	nodes := len(r.items)
	if err := r.repair(ctx); err != nil {
		return err
	}
	if err := r.slotsAgain(ctx); err != nil {
		return err
	}
	r.items = nil
	if err := d.finish(ctx); err != nil || d.run.Status.RunEnded() {
		return err
	}
	mended := distinct(d.graph.take())
	if err := d.send(ctx, mended, 0); err != nil {
		return err
	}
	if len(mended)+len(r.again) > 0 {
		r.wants(ReconcileEvery)
	}
	// Reconciling a large run is expensive, because every node is read.
	return d.postpone(ctx, now, max(r.next, time.Duration(nodes)*reconcileCost), r.probe.noted()...)
}

// dispatch sends the message of a run that no worker has started.
func (r *reconciler) dispatch(ctx context.Context) error {
	lost, err := r.unclaimedSince(ctx, r.run.CreatedAt)
	//guard:reconcile/dispatch true
	//guard:reconcile/dispatch-once drop operand 2
	if err != nil || !lost {
		return err
	}
	return r.sendAll(ctx, events.Tasks(r.run.Mode), []events.Run{{Kind: events.RunStart, Timeout: &r.run.Timeout}}, 0)
}

// wants requests a reconciliation after some time at the latest.
func (r *reconciler) wants(after time.Duration) { r.next = min(r.next, after) }

// repair propagates finished nodes again that are not recorded on their
// targets, decides tasks again that no worker took up, and enqueues nodes that
// are due or have lost their lease.
func (r *reconciler) repair(ctx context.Context) error {
	if err := r.propagations(ctx); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(r.items)) {
		if err := r.waiting(ctx, n, r.items[n]); err != nil {
			return err
		}
	}
	if err := r.unclaimed(ctx); err != nil {
		return err
	}
	return r.graph.propagate(ctx, r.again...)
}

// propagations collects what to propagate again.
func (r *reconciler) propagations(ctx context.Context) error {
	for _, n := range slices.Sorted(maps.Keys(r.items)) {
		item := r.items[n]
		ref, err := r.flow.plan.Ref(n)
		if err != nil {
			return err
		}
		if !item.Status.Terminal() && ref.Kind != engine.KindJoin {
			if item.Width != nil && item.Status == engine.Running {
				r.graph.remember(n, item)
			}
			continue
		}
		d, whole, err := r.spread(ctx, n, ref, item)
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		missed, err := r.missed(ctx, d)
		if err != nil {
			return err
		}
		if !missed {
			continue
		}
		if !r.restarted && item.EndedAt != 0 && r.now.Sub(item.EndedAt.Time()) < grace { //guard:reconcile/under-way false
			r.wants(ReconcileEvery) // its worker may still be doing it
			continue
		}
		r.again = append(r.again, d)
	}
	return nil
}

// waiting handles an unfinished node: it enqueues one that has lost its lease
// or is overdue.
func (r *reconciler) waiting(ctx context.Context, n engine.Node, item *runstate.Node) error {
	switch {
	case item.Status.Terminal():
	case item.Status == engine.Running && item.Width != nil && item.Nonce == "":
		return r.instances(ctx, n, item)
	case item.Status == engine.Running && item.Nonce != "":
		if !r.leased(item, r.now) { //guard:reconcile/expired false
			return r.overdue(ctx, n, item, item.LeaseUntil)
		}
		r.wants(item.LeaseUntil.Time().Sub(r.now)) //guard:reconcile/lease drop
	case item.Handed != "" && item.Due.Time().After(r.now):
		r.handed(n, item)
	case item.Due != 0:
		late := r.now.Sub(item.Due.Time())
		//guard:reconcile/due false
		//guard:reconcile/grace or late > 0
		if late > grace {
			return r.overdue(ctx, n, item, item.Due+clock.Millis(grace.Milliseconds()))
		}
		r.wants(max(2*grace-late, ReconcileEvery))
	}
	return nil
}

// overdue enqueues a node that a worker should have taken up at since: at the
// first reconciliation after it, and later if that message seems to be lost.
func (r *reconciler) overdue(ctx context.Context, n engine.Node, item *runstate.Node, since clock.Millis) error {
	again := r.restarted || r.probe.probed.Before(since.Time())
	if !again {
		var err error
		if again, err = r.probe.lost(ctx, since); err != nil {
			return err
		}
	}
	if again { //guard:reconcile/overdue true
		r.probe.sent = true
		r.graph.ready = append(r.graph.ready, ready{n, item.Attempt, item.Due})
	}
	r.wants(r.probe.again(since))
	return nil
}

// handed enqueues a node that was handed off and has not begun for a while, once:
// the process that handed it off may have died before it started a runner. Most
// such nodes wait for others, and need no second runner.
func (r *reconciler) handed(n engine.Node, item *runstate.Node) {
	since := item.Due.Time().Add(2*ReconcileEvery - HandOff)
	if wait := since.Sub(r.now); wait > 0 {
		r.wants(wait)
		return
	}
	if r.probe.probed.Before(since) { //guard:reconcile/handed false
		r.probe.sent = true
		r.graph.ready = append(r.graph.ready, ready{n, item.Attempt, item.Due})
	}
	r.wants(item.Due.Time().Add(grace).Sub(r.now))
}

// spread returns the done of a node's item; false if a join is not complete.
func (r *reconciler) spread(ctx context.Context, n engine.Node, ref engine.Ref, item *runstate.Node) (done, bool, error) {
	if item.Status.Terminal() {
		d, err := r.graph.doneOf(ctx, n, item)
		if err != nil {
			return done{}, false, err
		}
		return *d, true, nil
	}
	d := done{node: n}
	if ref.Task >= 0 {
		parent, err := r.mapItem(ctx, ref.Task)
		if err != nil {
			return d, false, err
		}
		d.width = *parent.Width
	}
	d.outcome = item.Sets().Worst()
	//guard:reconcile/joins false
	//guard:reconcile/half-a-join true
	return d, item.Sets().Count() >= r.flow.plan.JoinNeed(n, d.width), nil
}

// missed reports whether a finished node is not recorded on one of its targets.
// It does not include ready tasks that no worker has taken up.
func (r *reconciler) missed(ctx context.Context, d done) (bool, error) {
	if d.node == r.flow.plan.OnFailure() { //guard:reconcile/on_failure drop
		return true, nil // the run would have ended
	}
	for _, t := range r.graph.targets(d) {
		ref, err := r.flow.plan.Ref(t.Node)
		if err != nil {
			return false, err
		}
		item := r.items[t.Node]
		if t.Need > 1 && (item == nil || !item.Noted(d.node)) { //guard:reconcile/untold drop operand 2.2
			return true, nil
		}
		if t.Need > 1 && item.Sets().Count() < t.Need {
			continue
		}
		missed := false
		switch {
		case ref.Kind == engine.KindEnd:
			missed, err = r.endMissed(ctx)
		case ref.Kind == engine.KindJoin:
			// A join with more children has an item to compare.
			if t.Need == 1 { //guard:reconcile/join false
				missed, err = r.missed(ctx, done{node: t.Node, outcome: d.outcome, width: d.width})
			}
		case r.graph.endsMap(d, ref):
			missed = item != nil && item.Status != "" && !item.Status.Terminal() //guard:reconcile/map when false
		}
		if missed || err != nil {
			return missed, err
		}
	}
	return false, nil
}

// endMissed reports whether END was reached, but the run did not end or its
// on_failure task was not taken up.
func (r *reconciler) endMissed(ctx context.Context) (bool, error) {
	if r.run.Worst == nil { //guard:reconcile/END false
		return true, nil
	}
	if item := r.items[r.flow.plan.OnFailure()]; item != nil && item.Status != "" {
		return false, nil
	}
	var last clock.Millis
	for _, item := range r.items {
		last = max(last, item.EndedAt)
	}
	return r.unclaimedSince(ctx, last) //guard:reconcile/on_failure-lost return false, nil
}

// postpone writes the time of the run's next reconciliation, between
// ReconcileEvery and ReconcileMost from now, and further actions.
func (d *driver) postpone(ctx context.Context, now time.Time, after time.Duration, more ...table.Action) error {
	next := now.Add(min(max(ReconcileEvery, after), ReconcileMost)) //guard:reconcile/next arg 1 100 * ReconcileMost
	//guard:reconcile/deadline false
	if d.run.Deadline != 0 && d.run.Deadline.Time().After(now) && d.run.Deadline.Time().Before(next) {
		next = d.run.Deadline.Time()
	}
	kept, err := d.keep(ctx, now)
	if err != nil {
		return err
	}
	more = append(more, kept...)
	due := runstate.DueAt(d.org, d.id, d.run.Tasks, next)
	_, err = d.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(d.org, d.id),
		Do: append(more,
			table.Set(runstate.DuePK, due.DuePK), table.Set(runstate.DueSK, due.DueSK),
			table.Set(runstate.RunReconciled, int64(millis(now))), //guard:reconcile/noted drop
		),
		//guard:reconcile/postponed drop
		If: table.In(runstate.RunStatus, string(engine.Queued), string(engine.Running), string(engine.CancellationRequested)),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("postpone reconciliation: %w", err)
	}
	return nil
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
