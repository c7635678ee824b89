package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// driver does what a message says: it has attempts made, what they finish
// propagated, and runs ended.
type driver struct {
	*session
	attempts   *attempts
	graph      *graph
	lifecycle  *lifecycle
	inline     int // tasks gone on with
	deliveries int // of the message, 1 for the first
}

func newDriver(s *session) *driver {
	return &driver{session: s, attempts: &attempts{values: values{s}}, graph: &graph{session: s}, lifecycle: &lifecycle{s}}
}

// handle does what a message says. deliveries counts how often it was delivered,
// 1 for the first. After an error the message is to be delivered again: every
// step is repeatable.
func (d *driver) handle(ctx context.Context, m events.Run, deliveries int) (err error) {
	d.again, d.deliveries = deliveries > 1, deliveries
	switch m.Kind {
	case events.RunStart:
		err = d.start(ctx, m.Timeout)
	case events.RunTask:
		d.chain = fmt.Sprint(m.Node)
		err = d.takeUp(ctx, m)
	case events.RunPropagate, "expand": // as versions before called the instances of a map
		d.chain = fmt.Sprintf("%d/%d", m.Node, m.Part)
		err = d.part(ctx, m)
	case events.RunReconcile:
		err = d.reconcile(ctx, false)
	default:
		return fmt.Errorf("worker: unknown message kind %q", m.Kind)
	}
	// After an error as well: a process that is frozen between messages may
	// never come to it.
	return errors.Join(err, d.flush(ctx)) //guard:log/before-delete arg 2 nil
}

// start begins a run: its roots are what is ready first. timeout is the run's, nil
// if its message did not bring it.
func (d *driver) start(ctx context.Context, timeout *int) error {
	d.chain = "start"
	if timeout == nil { // sent by a version that did not say
		if err := d.load(ctx); err != nil {
			return err
		}
		timeout = &d.run.Timeout
	}
	first, err := d.lifecycle.start(ctx, *timeout)
	if err != nil {
		return err
	}
	if !first {
		d.again = true
		if stopped, err := d.stopped(ctx); stopped || err != nil {
			return err
		}
	}
	return d.propagate(ctx, done{node: events.Start})
}

// stopped sees to a run that has ended or is to end, and reports whether it is
// such a one.
func (d *driver) stopped(ctx context.Context) (bool, error) {
	switch {
	case d.run.Status.RunEnded():
		return true, d.lifecycle.archive(ctx)
	case d.run.Fenced(d.Clock.Now()) != "":
		return true, d.lifecycle.stop(ctx)
	}
	return false, nil
}

// takeUp makes the attempt that a message is about.
func (d *driver) takeUp(ctx context.Context, m events.Run) error {
	kind := m.Type
	if d.scarce && kind == "" { // sent by a version that did not say
		if err := d.load(ctx); err != nil {
			return err
		}
		task, err := d.task(engine.Node(m.Node))
		if err != nil {
			return err
		}
		kind = task.Type
	}
	if err := d.results.admit(ctx); err != nil {
		return err
	}
	r := ready{node: engine.Node(m.Node), attempt: m.Attempt}
	if _, scarce := d.Executors[kind].(executor.Reserver); scarce && d.deliveries > mostDeliveries { //guard:place/deliveries false
		return d.send(ctx, []ready{r}, 0)
	}
	place, ok, err := d.reserve(ctx, kind)
	if err != nil {
		return err
	}
	if !ok {
		return d.send(ctx, []ready{r}, placeAgain)
	}
	return d.drive(ctx, r, place)
}

// part does one part of a wide propagation.
func (d *driver) part(ctx context.Context, m events.Run) error {
	if err := d.load(ctx); err != nil {
		return err
	}
	if d.run.Fenced(d.Clock.Now()) != "" {
		return d.lifecycle.stop(ctx)
	}
	if err := d.graph.part(ctx, m); err != nil {
		return err
	}
	return d.goOn(ctx)
}

// propagate goes on from finished nodes and drives one of the tasks that are
// ready then.
func (d *driver) propagate(ctx context.Context, from ...done) error {
	if err := d.graph.propagate(ctx, from...); err != nil {
		return err
	}
	return d.goOn(ctx)
}

// goOn ends the run if that is due, or drives one of the ready nodes and
// enqueues the others.
func (d *driver) goOn(ctx context.Context) error {
	r, place, err := d.next(ctx)
	if err != nil || r == nil {
		return err
	}
	return d.drive(ctx, *r, place)
}

// drive makes an attempt and goes on with what it makes ready, one task after
// the other, as long as there is one and time for it. The rest is enqueued.
func (d *driver) drive(ctx context.Context, r ready, p *place) error {
	defer func() { p.giveBack() }()
	for own := true; ; own = false {
		d.attempts.place = p
		out, err := d.attempts.try(ctx, r, own)
		switch {
		case err != nil:
			return err
		case out.stopped != "":
			return d.lifecycle.release(ctx, d.attempt, out.stopped)
		case out.item == nil:
			return nil
		}
		p.giveBack()
		if err := d.follow(ctx, r.node, out.item); err != nil { //guard:propagate/before-delete false
			return err
		}
		next, place, err := d.next(ctx)
		if err != nil || next == nil {
			return err
		}
		r, p = *next, place
	}
}

// follow goes on from a node that is finished, or is a map whose instances are
// to begin.
func (d *driver) follow(ctx context.Context, n engine.Node, item *runstate.Node) error {
	if d.run == nil {
		if err := d.load(ctx); err != nil {
			return err
		}
	}
	if d.run.Status.RunEnded() { // followed before, up to the end
		return d.lifecycle.archive(ctx)
	}
	if !item.Status.Terminal() {
		return d.graph.beginMap(ctx, n, item) //guard:map/goes-on return nil
	}
	from, err := d.graph.doneOf(ctx, n, item)
	if err != nil {
		return err
	}
	return d.graph.propagate(ctx, *from)
}

// finish ends the run if the graph has come to its end.
func (d *driver) finish(ctx context.Context) error {
	switch {
	case d.graph.onFailureDone:
		return d.lifecycle.finishFailed(ctx)
	case d.graph.worst != nil:
		onFailure, err := d.lifecycle.finish(ctx, *d.graph.worst)
		if onFailure {
			d.graph.ready = append(d.graph.ready, ready{d.flow.plan.OnFailure(), 1})
		}
		d.graph.worst = nil
		return err
	}
	return nil
}

// The bounds of what hangs on one message, because all of it is followed again
// if the message is delivered again, by a crash for one.
const (
	// MaxInline is how many tasks a worker runs one after the other.
	MaxInline = 256
	// maxSiblings is how many ready nodes it keeps one of.
	maxSiblings = queue.MaxBatch
)

// next keeps one ready node for this worker, with the place it needs, and
// enqueues the others.
func (d *driver) next(ctx context.Context) (*ready, *place, error) {
	if err := d.finish(ctx); err != nil {
		return nil, nil, err
	}
	nodes := d.graph.take()
	if len(nodes) == 0 {
		return nil, nil, nil
	}
	if d.run.Status.RunEnded() {
		return nil, nil, nil
	}
	until, limited := ctx.Deadline()
	late := limited && until.Sub(d.Clock.Now()) < d.need(nodes[0])+WriteMargin //guard:inline/budget false
	if late || queue.Stopping(ctx) || len(nodes) > maxSiblings || d.inline >= MaxInline {
		return nil, nil, d.send(ctx, nodes, 0)
	}
	d.inline++
	if err := d.send(ctx, nodes[1:], 0); err != nil { //guard:inline/others drop
		return nil, nil, err
	}
	task, err := d.task(nodes[0].node)
	if err != nil {
		return nil, nil, err
	}
	if err := d.results.admit(ctx); err != nil {
		return nil, nil, err
	}
	place, ok, err := d.reserve(ctx, task.Type)
	if err == nil && !ok {
		err = d.send(ctx, nodes[:1], placeAgain)
	}
	if err != nil || !ok {
		return nil, nil, err
	}
	return &nodes[0], place, nil
}

// need is how long a node may take.
func (d *driver) need(r ready) time.Duration {
	task, err := d.task(r.node)
	if err != nil {
		return 0
	}
	return time.Duration(task.TimeoutSecs) * time.Second
}
