package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/slots"
)

// Runner is a runner that an attempt was handed off to.
type Runner struct {
	Attempt ticket.Attempt // of its token
	// ID is the runner's own, the same in all its requests: of two runners with one
	// token, one begins.
	ID string
}

// maxRunnerID is the longest ID of a runner, in bytes.
const maxRunnerID = 64

// nonce is that of the runner's lease.
func (r Runner) nonce() string { return r.Attempt.Nonce + "." + r.ID }

// valid reports whether the lease of another runner cannot have this one's nonce.
func (r Runner) valid() bool {
	return r.Attempt.Nonce != "" && r.ID != "" && len(r.ID) <= maxRunnerID && !strings.Contains(r.Attempt.Nonce, ".")
}

// errOver is the answer to a runner whose attempt is another's, or over.
func errOver(r Runner) error {
	return errs.New(errs.Conflict, "attempt %d of %s is over, or another runner has it", r.Attempt.Number, r.Attempt.Task)
}

// work returns the driver of the run of a runner's attempt. Its chain is that of
// the attempt's own message.
func (c *Worker) work(ctx context.Context, r Runner) (*driver, context.Context) {
	d := newDriver(c.session(r.Attempt.Org, r.Attempt.Run))
	d.chain = fmt.Sprint(r.Attempt.Node)
	return d, d.about(ctx, "")
}

// Begin lets a runner begin its attempt: it takes the lease, and returns the
// message of the task's executor. It may be repeated. Errors: errs.Conflict if
// the attempt must not begin, and others after which to try again.
func (c *Worker) Begin(ctx context.Context, r Runner) (message json.RawMessage, err error) {
	if !r.valid() {
		return nil, errOver(r)
	}
	d, ctx := c.work(ctx, r)
	a, n := d.attempts, engine.Node(r.Attempt.Node)
	now := a.Clock.Now()
	stored, err := a.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(a.org, a.id, n),
		Do: []table.Action{
			table.Set(runstate.NodeStatus, string(engine.Running)),
			table.Set(runstate.NodeNonce, r.nonce()), table.Set(runstate.NodeLease, int64(millis(now.Add(Lease)))),
			table.Set(runstate.NodeStarted, int64(millis(now))), table.Set(runstate.NodeUnlogged, true),
			table.Remove(runstate.NodeHanded), table.Remove(runstate.NodeDue), table.Remove(runstate.NodeReason),
		},
		If: table.And(
			from(engine.Begin, engine.Running),
			table.Eq(runstate.NodeHanded, r.Attempt.Nonce),   //guard:runner/nonce drop
			table.Eq(runstate.NodeAttempt, r.Attempt.Number), //guard:runner/attempt drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		old := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, old); err != nil {
			return nil, err
		}
		//guard:runner/lost-answer true
		if old.Nonce != r.nonce() || old.Status != engine.Running {
			return nil, errOver(r)
		}
		stored = failed.Old
	} else if err != nil {
		return nil, err
	}
	item := &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return nil, err
	}
	defer a.releaseScope()
	w := &attempt{node: n, item: item}
	a.attempt = w
	message, out, err := a.briefing(ctx, w)
	switch {
	case err != nil:
		out, err = a.unable(ctx, w, err)
	case message != nil:
		return message, d.flush(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := d.carryOn(ctx, w, out); err != nil {
		return nil, err
	}
	return nil, errOver(r)
}

// briefing returns the message for the runner that has begun an attempt. Without
// one the attempt is over, released or to be cancelled, see outcome.
func (a *attempts) briefing(ctx context.Context, w *attempt) (json.RawMessage, outcome, error) {
	remote, out, err := a.resume(ctx, w)
	if remote == nil || err != nil {
		return nil, out, err
	}
	return a.brief(ctx, w, remote)
}

// brief returns the message for the runner of an attempt that may begin.
func (a *attempts) brief(ctx context.Context, w *attempt, remote executor.Dispatcher) (json.RawMessage, outcome, error) {
	w.announced, w.unlogged = true, unlogged(w.item)
	described, cut, err := a.describe(ctx, w)
	if err != nil {
		return nil, outcome{}, err
	}
	if cut && described.Timeout <= 0 {
		return nil, outcome{stopped: runstate.FenceDeadline}, nil
	}
	described.Secret = a.secret(ctx)
	message, ended := remote.Request(ctx, described)
	if message != nil {
		return message, outcome{}, nil
	}
	out, err := a.settle(ctx, w, ended, nil)
	return nil, out, err
}

// resume reads the run and the task of an attempt that runs elsewhere. It returns
// nil, and an outcome, if the run was stopped.
func (a *attempts) resume(ctx context.Context, w *attempt) (executor.Dispatcher, outcome, error) {
	if err := a.load(ctx); err != nil {
		return nil, outcome{}, err
	}
	if why := a.run.Fenced(a.Clock.Now()); why != "" { //guard:runner/fence false
		return nil, outcome{stopped: why}, nil
	}
	var err error
	if w.ref, err = a.flow.plan.Ref(w.node); err != nil {
		return nil, outcome{}, err
	}
	if w.task, err = a.task(w.node); err != nil {
		return nil, outcome{}, err
	}
	a.working(w)
	if w.ref.Kind == engine.KindInstance {
		if w.parent, err = a.mapItem(ctx, w.ref.Task); err != nil {
			return nil, outcome{}, err
		}
	}
	remote := a.remote(w.task)
	if remote == nil {
		return nil, outcome{}, fmt.Errorf("worker: tasks of type %s are not handed off", w.task.Type)
	}
	return remote, outcome{}, nil
}

// Start returns the event of the start of an attempt that a runner has begun, if
// the log lacks it. It precedes what else is logged of the attempt, whose item was
// read just now. When it is stored, Announced is to be called: a crash in between
// repeats the event, as it repeats the lines that the runner posts again.
func (c *Worker) Start(r Runner, item *runstate.Node) (start runlog.Event, ok bool) {
	at := unlogged(item)
	if at == 0 || !r.valid() || item.Nonce != r.nonce() { //guard:unlogged/nonce drop operand 3
		return runlog.Event{}, false
	}
	w := &attempt{node: engine.Node(r.Attempt.Node), item: item, task: &flowspec.Task{Name: r.Attempt.Task}}
	if i := r.Attempt.MapIndex; i != nil {
		w.ref = engine.Ref{Kind: engine.KindInstance, Index: *i}
	}
	return c.session(r.Attempt.Org, r.Attempt.Run).startEvent(w, at), true
}

// Announced records that the log has the start of an attempt that a runner has
// begun. It renews the lease, too. If that fails, the start is logged again.
func (c *Worker) Announced(ctx context.Context, r Runner) {
	d, ctx := c.work(ctx, r)
	_, err := d.persist(ctx, claimTries, table.Update{
		Key: runstate.NodeKey(d.org, d.id, engine.Node(r.Attempt.Node)),
		Do:  []table.Action{table.Remove(runstate.NodeUnlogged), table.Set(runstate.NodeLease, int64(millis(d.Clock.Now().Add(Lease))))},
		If: table.And(
			table.Eq(runstate.NodeNonce, r.nonce()),
			table.Eq(runstate.NodeStatus, string(engine.Running)),
			table.Exists(runstate.NodeUnlogged),
		),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) { // another request did, or the attempt is over
		d.Log.WarnContext(ctx, "not recorded that the start is logged", "node", r.Attempt.Node, "error", err)
	}
}

// Renew renews the lease of a runner's attempt and reads the fence. It reports
// whether the runner must stop the task. Errors: those of the table.
func (c *Worker) Renew(ctx context.Context, r Runner) (stop bool, err error) {
	if !r.valid() {
		return true, nil
	}
	d, ctx := c.work(ctx, r)
	why, _, err := d.attempts.renew(ctx, engine.Node(r.Attempt.Node), r.nonce())
	if err == nil {
		c.slotRenewed(ctx, r.Attempt.Org)
	}
	return why != "", err
}

// Complete takes the answer of a runner: it ends the attempt and continues with
// what follows from it. It may be repeated: the first answer counts. Errors:
// errs.Conflict if the attempt is not the runner's any more, and others after
// which to try again.
func (c *Worker) Complete(ctx context.Context, r Runner, answer json.RawMessage) error {
	return c.completeBy(ctx, &heir{runner: r}, answer)
}

// completeBy takes the answer of a runner, which may make the next attempt.
func (c *Worker) completeBy(ctx context.Context, h *heir, answer json.RawMessage) error {
	r := h.runner
	if !r.valid() {
		return errOver(r)
	}
	d, ctx := c.work(ctx, r)
	a, n := d.attempts, engine.Node(r.Attempt.Node)
	item, err := a.node(ctx, n)
	switch {
	case err != nil:
		return err
	case item == nil || item.Nonce != r.nonce(): //guard:runner/others drop operand 2
		return errOver(r)
	}
	w := &attempt{node: n, item: item, announced: true, unlogged: unlogged(item)}
	a.attempt, a.heir = w, h
	h.slot = slots.Parse(item.Slot)
	out := outcome{item: item}
	if item.Status.Terminal() { // its answer was taken, and this runner does not know
		d.again = true
		if h.slot, err = d.stillHeld(ctx, h.slot); err != nil {
			return err
		}
	} else {
		h.over = !h.slot.None() && !d.slots.Keeps(ctx, d.org, h.slot) //guard:share/hand-on false
		if out, err = a.answered(ctx, w, answer); err != nil {
			return err
		}
	}
	return d.carryOn(ctx, w, out)
}

// answered ends an attempt with the answer of its runner.
func (a *attempts) answered(ctx context.Context, w *attempt, answer json.RawMessage) (outcome, error) {
	remote, out, err := a.resume(ctx, w)
	if remote == nil || err != nil {
		return out, err
	}
	h := a.heartbeat(ctx, w, false)
	defer h.close()
	described := a.outline(w)
	described.Secret = a.secret(h)
	result, took, err := remote.Result(h, described, answer)
	switch why := h.stopped(); {
	case why == leaseLost:
		return outcome{}, nil
	case why != "":
		return outcome{stopped: why}, nil
	case err != nil:
		return outcome{}, err
	}
	if result.Unstarted != "" {
		a.lostRunner(ctx, w, result.Unstarted)
	}
	if took > 0 {
		w.item.StartedAt = max(w.item.StartedAt, millis(a.Clock.Now().Add(-took)))
		a.callSpan(ctx, w, w.item.StartedAt.Time())
	}
	return a.settle(ctx, w, result, h)
}

// settle ends or releases an attempt by the result of its executor.
func (a *attempts) settle(ctx context.Context, w *attempt, result executor.Result, h *heartbeat) (outcome, error) {
	if result.Unstarted != "" {
		_, err := a.giveBack(ctx, w, result.Unstarted)
		return outcome{}, err
	}
	return a.complete(ctx, w, result, h)
}

// carryOn continues from an attempt that ended elsewhere.
func (d *driver) carryOn(ctx context.Context, w *attempt, out outcome) error {
	switch {
	case out.stopped != "":
		return errors.Join(d.lifecycle.release(ctx, w, out.stopped), d.flush(ctx))
	case out.item == nil:
		return d.flush(ctx)
	}
	err := d.follow(ctx, w.node, out.item)
	if err == nil {
		err = d.goOn(ctx)
	}
	d.attempts.freeAfter(ctx, w, err)
	return errors.Join(err, d.flush(ctx))
}
