package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/slots"
)

// Times allowed after an attempt's own timeout.
const (
	overrun = 2 * time.Second  // for an executor that enforces the timeout by itself to report it
	abandon = 15 * time.Second // for an executor to return after its context ended
)

// begin is an attempt that is ready to execute.
type begin struct {
	executor executor.Executor
	attempt  *executor.Attempt
	remote   executor.Dispatcher // the attempt is handed off; nil: it is executed here
	cut      bool                // the run's deadline ends it before the task's own timeout
	// preparation is how long it may take until the task's own code begins, 0 if
	// it begins at once. told means that Attempt.Begin is called then.
	preparation time.Duration
	told        bool
}

// prepare does what is needed between claim and execution. It returns nil if
// there is nothing to execute: the run was stopped, the condition is false, the
// task is a map, or it cannot run. An error means that a service was not
// available.
func (a *attempts) prepare(ctx context.Context, w *attempt) (*begin, outcome, error) {
	if err := a.load(ctx); err != nil { //guard:fence/anew when a.run == nil
		return nil, outcome{}, err
	}
	if why := a.run.Fenced(a.Clock.Now()); why != "" { //guard:fence/read false
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
	if remote != nil && !remote.Serves(a.run.TierOf(w.task.Tier)) {
		remote = nil // it is executed here, which fails and says why
	}
	if !w.item.Suspended {
		if remote == nil {
			a.announce(w)
		}
		if err := a.reportRetry(ctx, w); err != nil {
			return nil, outcome{}, err
		}
		if over, out, err := a.decideToRun(ctx, w); err != nil || over {
			return nil, out, err
		}
	}
	run, known := a.Executors[w.task.Type]
	if !known {
		return a.refuse(ctx, w, executor.Final(executor.UnknownType, "nothing here runs tasks of type %q", w.task.Type))
	}
	if remote != nil {
		return &begin{remote: remote}, outcome{}, nil
	}
	b := &begin{executor: run}
	if preparing, ok := run.(executor.Preparer); ok {
		b.preparation, b.told = preparing.Preparation()
	}
	if b.attempt, b.cut, err = a.describe(ctx, w); err != nil {
		return nil, outcome{}, err
	}
	why, err := a.fresh(ctx, w)
	switch {
	case err != nil:
		return nil, outcome{}, err
	case why == leaseLost:
		a.Log.WarnContext(ctx, "lease lost", "node", w.node)
		return nil, outcome{}, nil
	case why == "" && b.attempt.Timeout <= 0 && b.cut:
		why = runstate.FenceDeadline
	}
	if why != "" {
		return nil, outcome{stopped: why}, nil
	}
	return b, outcome{}, nil
}

// announce logs that an attempt begins, unless it is known to have been logged.
func (a *attempts) announce(w *attempt) {
	if w.announced = true; !w.item.Announced { //guard:give-back/begins-once true
		a.Logs.Append(a.org, a.id, a.startEvent(w, millis(a.Clock.Now())))
	}
}

// refuse completes an attempt that must not begin.
func (a *attempts) refuse(ctx context.Context, w *attempt, result executor.Result) (*begin, outcome, error) {
	out, err := a.complete(ctx, w, result, nil)
	return nil, out, err
}

// decideToRun evaluates a task's condition and the list that it is mapped over.
// It reports whether this completed the attempt.
func (a *attempts) decideToRun(ctx context.Context, w *attempt) (over bool, out outcome, err error) {
	if w.ref.Kind != engine.KindTask {
		return false, outcome{}, nil
	}
	if w.task.Condition != "" {
		holds, err := a.holds(ctx, w)
		var bad *expr.EvalError
		switch {
		case errors.As(err, &bad):
			out, err := a.complete(ctx, w, executor.Final(executor.Expression, "condition: %s", bad.Msg), nil)
			return true, out, err
		case err != nil:
			return false, outcome{}, err
		case !holds: //guard:decide/condition false
			item, err := a.skip(ctx, w)
			return true, outcome{item: item}, err
		}
	}
	if w.task.MapOver != "" {
		out, err := a.expand(ctx, w)
		return true, out, err
	}
	return false, outcome{}, nil
}

// execute executes a claimed attempt and completes it.
func (a *attempts) execute(ctx context.Context, w *attempt, b *begin) (outcome, error) {
	defer a.place.giveBack()
	a.Log.DebugContext(ctx, "attempt begins")
	if !a.began {
		a.began = true
		// In one process with the API, the request that sent the message may wait for
		// this processor to answer.
		runtime.Gosched()
	}
	if b.remote != nil {
		if to, ok := a.runnerOf(ready{node: w.node, attempt: w.item.Attempt}); ok && w.item.Nonce == to.nonce() {
			return a.handOn(ctx, w, b.remote, to)
		}
		return outcome{}, a.handOff(ctx, w, b.remote)
	}
	if a.heir != nil && !b.executor.Instant() { //guard:slot/inline false
		a.slotFreed(ctx, a.org, a.heir.slot)
		a.heir.slot = slots.Slot{}
	}
	b.attempt.Reserved = a.place.taken()
	b.attempt.Secret = a.secret(ctx)
	if b.executor.Instant() {
		result := a.call(ctx, b)
		return a.settle(ctx, w, result, nil)
	}
	h := a.heartbeat(ctx, w, b.told) //guard:begin/queued arg 3 false
	defer h.close()
	limited, cancel := context.WithCancel(h)
	limit := b.attempt.Timeout + overrun
	if !b.cut {
		limit += b.preparation
	}
	timer := time.AfterFunc(limit, cancel)
	b.attempt.Begin = func(ago time.Duration) {
		//guard:begin/time false
		if w.begun.CompareAndSwap(0, int64(millis(a.Clock.Now().Add(-ago)))) && !b.cut {
			timer.Reset(b.attempt.Timeout + overrun)
		}
		h.tell()
	}
	began := a.Clock.Now()
	result, returned := a.attend(limited, b)
	a.callSpan(ctx, w, began)
	overran := limited.Err() != nil && h.Err() == nil
	timer.Stop()
	cancel()
	if begun := w.begun.Load(); begun != 0 {
		w.item.StartedAt = clock.Millis(begun) //guard:begin/started drop
	}
	a.place.giveBack() // writing the result may have to wait for the store
	switch why := h.stopped(); {
	case why == leaseLost:
		a.Log.WarnContext(ctx, "lease lost", "node", w.node)
		return outcome{}, nil
	case why != "":
		return outcome{stopped: why}, nil
	case ctx.Err() != nil: //guard:attempt/stopped false
		return outcome{}, ctx.Err() // the worker stops and its lease expires
	case result.Unstarted != "":
		return a.settle(ctx, w, result, nil)
	case b.cut && (overran || result.Failure != nil && result.Failure.TimedOut):
		return outcome{stopped: runstate.FenceDeadline}, nil
	case overran && b.told && w.begun.Load() == 0:
		result = executor.Failed(executor.SandboxFailed, "the task's code did not begin within %s", b.preparation)
	case overran: //guard:attempt/time and result.Failure != nil
		result = executor.TimedOut(w.task)
	}
	if !returned {
		a.Log.ErrorContext(ctx, "executor does not return: abandoned", "type", w.task.Type)
		result.Failure.Final = true // another attempt would run concurrently
	}
	return a.complete(ctx, w, result, h)
}

// secret returns the function that resolves secrets of the run's environment.
func (a *attempts) secret(ctx context.Context) func(name string) (string, error) {
	return func(name string) (string, error) {
		if a.Worker.Secret == nil {
			return "", fmt.Errorf("there is no secret named %s", name)
		}
		return a.Worker.Secret(ctx, a.org, a.run.Environment, name)
	}
}

// attend waits for the executor to return, for a limited time if it ignores its
// context. It reports whether the executor has returned.
func (a *attempts) attend(ctx context.Context, b *begin) (executor.Result, bool) {
	done := make(chan executor.Result, 1)
	go func() { done <- a.call(ctx, b) }()
	select {
	case result := <-done:
		return result, true
	case <-ctx.Done():
	}
	patience := time.NewTimer(abandon)
	defer patience.Stop()
	select {
	case result := <-done:
		return result, true
	case <-patience.C:
		return executor.Result{}, false
	}
}

// call calls the executor. A panic ends only this attempt.
func (a *attempts) call(ctx context.Context, b *begin) (result executor.Result) {
	defer func() {
		if p := recover(); p != nil { //guard:execute/panic when false
			a.Log.ErrorContext(ctx, "executor panicked", "type", b.attempt.Task.Type, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			result = executor.Failed(executor.Internal, "the service failed while it ran this attempt")
		}
	}()
	return b.executor.Execute(ctx, b.attempt)
}

// describe is the attempt as its executor sees it; cut tells that the run's
// deadline ends it before the task's own time-out.
func (a *attempts) describe(ctx context.Context, w *attempt) (out *executor.Attempt, cut bool, err error) {
	in, err := a.inputs(ctx)
	if err != nil {
		return nil, false, err
	}
	out = a.outline(w)
	out.Params = in.Parameters
	out.Trace = a.span(w)
	if w.ref.Kind == engine.KindOnFailure {
		a.tellFailures(out)
	}
	if a.run.Deadline != 0 {
		if left := a.run.Deadline.Time().Sub(a.Clock.Now()); left < out.Timeout {
			out.Timeout, cut = left, true
		}
	}
	if w.ref.Kind == engine.KindInstance {
		list, err := a.list(ctx, w.ref.Task, w.parent)
		if err != nil {
			return nil, false, err
		}
		out.MapIndex = &w.ref.Index
		out.Item = list[w.ref.Index]
	}
	return out, cut, nil
}

// outline returns what is known of an attempt without reading more of its run.
func (a *attempts) outline(w *attempt) *executor.Attempt {
	return &executor.Attempt{
		Org: a.org, RunID: a.id, Flow: a.run.Flow, Version: a.run.Version, Environment: a.run.Environment, Mode: a.run.TierOf(w.task.Tier),
		TaskRunID: a.attemptID(w), Task: w.task, Number: w.item.Attempt,
		Resumed: w.item.Suspended, Started: w.item.StartedAt.Time(), Artifact: a.run.Artifact, CodeHash: a.run.CodeHash,
		Timeout:   time.Duration(w.task.TimeoutSecs) * time.Second,
		OutputKey: runstate.OutputKey(a.org, a.id, w.node, w.item.Attempt),
		Scope:     a.scope,
		Output:    a.outputOf,
		Hold:      a.hold,
		Log:       func(e sandbox.LogEvent) { a.line(w, e) },
	}
}
