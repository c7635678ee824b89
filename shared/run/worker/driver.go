package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// driver handles one message: it has attempts made, propagates what they
// finish, and ends runs.
type driver struct {
	*session
	attempts   *attempts
	graph      *graph
	lifecycle  *lifecycle
	inline     int // number of tasks run by this message after the first
	deliveries int // of the message, from 1
}

func newDriver(s *session) *driver {
	return &driver{session: s, attempts: &attempts{values: values{s}}, graph: &graph{session: s}, lifecycle: &lifecycle{s}}
}

// handle handles a message. deliveries is the number of its deliveries, from 1.
// After an error the message must be delivered again: every step may be
// repeated.
func (d *driver) handle(ctx context.Context, m events.Run, deliveries int) (err error) {
	d.again, d.deliveries = deliveries > 1 || m.Again, deliveries
	switch m.Kind {
	case events.RunStart:
		err = d.start(ctx, m.Timeout)
	case events.RunTask:
		d.chain = fmt.Sprint(m.Node)
		err = d.takeUp(ctx, m)
	case events.RunPropagate, "expand": // earlier versions' name for the instances of a map
		d.chain = fmt.Sprintf("%d/%d", m.Node, m.Part)
		err = d.part(ctx, m)
	case events.RunReconcile:
		err = d.reconcile(ctx, false)
	default:
		return fmt.Errorf("worker: unknown message kind %q", m.Kind)
	}
	// Flush after an error as well: a process that is frozen between messages may
	// never get another chance.
	return errors.Join(err, d.flush(ctx)) //guard:log/before-delete arg 2 nil
}

// start begins a run with its roots. timeout is the run's, nil if the message
// does not contain it.
func (d *driver) start(ctx context.Context, timeout *int) error {
	d.chain = "start"
	if timeout == nil { // sent by an earlier version
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

// stopped handles a run that has ended or must end, and reports whether it is
// one.
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
	if d.scarce && kind == "" { // sent by an earlier version
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
	d.again = d.again || m.Due == 0 && m.Delay > 0 // sent by an earlier version, or for lack of a place
	r, anew := ready{engine.Node(m.Node), m.Attempt, clock.Millis(m.Due)}, m
	anew.Again = true
	if _, scarce := d.Executors[kind].(executor.Reserver); scarce && d.deliveries > mostDeliveries { //guard:place/deliveries false
		return d.sendAll(ctx, events.Tasks(d.mode()), []events.Run{anew}, 0)
	}
	place, ok, err := d.reserve(ctx, kind)
	if err != nil {
		return err
	}
	if !ok {
		return d.sendAll(ctx, events.Tasks(d.mode()), []events.Run{anew}, placeAgain)
	}
	return d.drive(ctx, r, place)
}

// part handles one part of a wide propagation.
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

// propagate propagates finished nodes and runs one of the tasks that become
// ready.
func (d *driver) propagate(ctx context.Context, from ...done) error {
	if err := d.graph.propagate(ctx, from...); err != nil {
		return err
	}
	return d.goOn(ctx)
}

// goOn ends the run if it is finished. Otherwise it runs one of the ready nodes
// and enqueues the others.
func (d *driver) goOn(ctx context.Context) error {
	r, place, err := d.next(ctx)
	if err != nil || r == nil {
		return err
	}
	return d.drive(ctx, *r, place)
}

// drive makes an attempt and continues with a task that it makes ready, one
// after the other, as long as there is one and time for it. The others are
// enqueued.
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

// follow continues from a node that is finished, or is a map whose instances
// are to begin.
func (d *driver) follow(ctx context.Context, n engine.Node, item *runstate.Node) error {
	if d.run == nil {
		if err := d.load(ctx); err != nil {
			return err
		}
	}
	if d.run.Status.RunEnded() { // this was done before, and ended the run
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

// finish ends the run if the graph has reached its end.
func (d *driver) finish(ctx context.Context) error {
	switch {
	case d.graph.onFailureDone:
		return d.lifecycle.finishFailed(ctx)
	case d.graph.worst != nil:
		onFailure, err := d.lifecycle.finish(ctx, *d.graph.worst)
		if onFailure {
			d.graph.ready = append(d.graph.ready, ready{node: d.flow.plan.OnFailure(), attempt: 1})
		}
		d.graph.worst = nil
		return err
	}
	return nil
}

// Limits of the work on one message. All of it is repeated if the message is
// delivered again, for example after a crash.
const (
	// MaxInline is how many tasks a worker runs one after the other.
	MaxInline = 256
	// maxSiblings is the number of ready nodes of which it keeps one.
	maxSiblings = queue.MaxBatch
)

// next keeps one ready node for this worker, with the slot it needs, and
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

// need returns how long a node may take.
func (d *driver) need(r ready) time.Duration {
	task, err := d.task(r.node)
	if err != nil {
		return 0
	}
	if d.remote(task) != nil {
		return handOffTime
	}
	return time.Duration(task.TimeoutSecs) * time.Second
}
