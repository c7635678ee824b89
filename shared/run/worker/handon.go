package worker

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/slots"
)

// handOnSpare is what a runner needs besides the time of a task: for the import
// of its module, the upload of its output and the result.
const handOnSpare = sandbox.ImportTimeout + 30*time.Second

// Next is an attempt that a runner has begun by completing another one.
type Next struct {
	Attempt ticket.Attempt  // for its token
	Message json.RawMessage // of the task's executor, as from Begin
}

// heir is a runner that has completed an attempt and may make the run's next
// one, if it is of the same tier: it saves the invocation of another one and the
// writes of a hand-off.
type heir struct {
	runner Runner
	left   time.Duration // until the runner's function ends
	next   *Next         // what it makes; nil: nothing yet
	slot   slots.Slot    // that the next attempt may have; none if there is no limit, too
	over   bool          // it is above what the workspace may hold by now
}

// nonce is that of the next attempt's token. It follows from the completed one,
// so that a repeated completion finds what the first has begun.
func (h *heir) nonce(n engine.Node, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", h.runner.nonce(), n, attempt))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// runnerOf returns the runner that a ready attempt may be handed on to. ok is
// false if there is none.
func (a *attempts) runnerOf(r ready) (next Runner, ok bool) {
	h := a.heir
	if h == nil || h.next != nil || a.run == nil || a.slots.Limits(a.org) && (h.slot.None() || h.over) { //guard:hand-on/slot drop operand 4
		return Runner{}, false
	}
	ref, err := a.flow.plan.Ref(r.node)
	if err != nil {
		return Runner{}, false
	}
	done, err := a.task(engine.Node(h.runner.Attempt.Node))
	if err != nil {
		return Runner{}, false
	}
	task, err := a.task(r.node)
	if err != nil || a.remote(task) == nil || ref.Kind == engine.KindTask && task.MapOver != "" {
		return Runner{}, false
	}
	//guard:hand-on/tier drop operand 1
	//guard:hand-on/time drop operand 2
	if a.run.TierOf(task.Tier) != a.run.TierOf(done.Tier) || h.left < time.Duration(task.TimeoutSecs)*time.Second+handOnSpare {
		return Runner{}, false
	}
	attempt := ticket.Attempt{
		Org: a.org, Run: a.id, Node: int(r.node), Number: r.attempt, Task: task.Name, Nonce: h.nonce(r.node, r.attempt),
		Expires: a.Clock.Now().Add(tokenLife).Unix(),
	}
	if ref.Kind == engine.KindInstance {
		attempt.MapIndex = &ref.Index
	}
	return Runner{Attempt: attempt, ID: h.runner.ID}, true
}

// handOn gives an attempt that was claimed for the runner to it.
func (a *attempts) handOn(ctx context.Context, w *attempt, remote executor.Dispatcher, to Runner) (outcome, error) {
	message, out, err := a.brief(ctx, w, remote)
	switch {
	case err != nil:
		return a.unable(ctx, w, err)
	case message != nil:
		a.heir.next = &Next{Attempt: to.Attempt, Message: message}
	}
	return out, nil
}

// Continue is like Complete. If one of the run's tasks is ready that the runner
// can make within the time that its function has left, the runner begins it
// thereby: it has the attempt's lease. A repeated call returns it again.
func (c *Worker) Continue(ctx context.Context, r Runner, answer json.RawMessage, left time.Duration) (*Next, error) {
	h := &heir{runner: r, left: left}
	err := c.completeBy(ctx, h, answer)
	if err != nil {
		return nil, err
	}
	return h.next, nil
}
