package conductor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/expr"
	"millrace/shared/flowspec"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
)

// work is a claimed attempt.
type work struct {
	ref    engine.Ref
	node   engine.Node
	item   *runstate.Node
	task   *flowspec.Task
	parent *runstate.Node // the mapped task's item, of an instance
	lines  atomic.Int64   // log lines so far
	id     string         // of the attempt; see attemptID
}

// attempt claims a node and runs it. It returns the finished node if the walk
// is to go on from it. own says that the message is about this very node.
func (s *session) attempt(ctx context.Context, r ready, own bool) (*done, error) {
	item, other, err := s.claim(ctx, r)
	if err != nil {
		return nil, err
	}
	if item == nil {
		if !own && other.Chain != s.chain { //guard:inline/again drop operand 2
			return nil, nil // its own message sees to it
		}
		return s.resume(ctx, r.node, other) //guard:message/again return nil, nil
	}
	if err := s.load(ctx); err != nil { //guard:fence/anew when s.run == nil
		return nil, err
	}
	if why := s.run.Fenced(s.Clock.Now()); why != "" { //guard:fence/read false
		return nil, s.release(ctx, r.node, item, why)
	}
	w := &work{node: r.node, item: item}
	if w.ref, err = s.flow.plan.Ref(r.node); err != nil {
		return nil, err
	}
	if w.task, err = s.task(r.node); err != nil {
		return nil, err
	}
	s.working(w)
	if w.ref.Kind == engine.KindInstance {
		if w.parent, err = s.mapItem(ctx, w.ref.Task); err != nil {
			return nil, err
		}
	}
	return s.execute(ctx, w)
}

// resume goes on from a node that was dealt with before: it finished, or its
// instances are under way. Whatever follows may have been done too.
func (s *session) resume(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	if s.run == nil {
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	s.again = true
	switch {
	case item.Status.Terminal():
		return s.finished(ctx, n, item)
	case item.Width != nil && item.Status == engine.Running:
		return nil, s.begunParts(ctx, n, *item.Width) //guard:map/goes-on return nil, nil
	}
	return nil, nil
}

// finished is the done of a finished node's item.
func (s *session) finished(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	d := &done{node: n, outcome: item.Outcome()}
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	if item.Status == engine.Failed || item.Status == engine.TimedOut {
		if task, err := s.task(n); err == nil {
			d.failure = clip(fmt.Sprintf("Task %s failed: %s: %s", task.Name, item.ErrorType, item.Error))
		}
	}
	if ref.Kind == engine.KindInstance {
		parent, err := s.mapItem(ctx, ref.Task)
		if err != nil {
			return nil, err
		}
		d.width = *parent.Width
	}
	return d, nil
}

// execute runs a claimed attempt to its end.
func (s *session) execute(ctx context.Context, w *work) (*done, error) {
	if !w.item.Suspended {
		s.event(w, runlog.TypeTaskStarted, "info", "Task %s started%s", w.task.Name, attemptSuffix(w.item.Attempt))
		if w.task.Condition != "" && w.ref.Kind == engine.KindTask {
			holds, err := s.holds(ctx, w)
			var bad *expr.EvalError
			switch {
			case errors.As(err, &bad):
				return s.finish(ctx, w, executor.Final(executor.Expression, "condition: %s", bad.Msg))
			case err != nil:
				return nil, err
			case !holds: //guard:decide/condition false
				return s.skip(ctx, w)
			}
		}
		if w.task.MapOver != "" && w.ref.Kind == engine.KindTask {
			return s.expand(ctx, w)
		}
	}
	run, known := s.Executors[w.task.Type]
	if !known {
		return s.finish(ctx, w, executor.Final(executor.UnknownType, "nothing here runs tasks of type %q", w.task.Type))
	}
	a, err := s.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	if a.Timeout <= 0 {
		return s.finish(ctx, w, timeoutResult(w.task))
	}
	if mine, err := s.fresh(ctx, w); err != nil || !mine {
		return nil, err
	}
	s.Log.DebugContext(ctx, "attempt begins")
	if run.Instant() {
		return s.finish(ctx, w, run.Execute(ctx, a))
	}
	held, stopped := s.hold(ctx, w.node, w.item.Nonce)
	limited, cancel := context.WithTimeout(held, a.Timeout+2*time.Second)
	result := run.Execute(limited, a)
	overran := limited.Err() != nil && held.Err() == nil
	cancel()
	why := stopped()
	switch {
	case why == "lost":
		s.Log.WarnContext(ctx, "lease lost", "node", w.node)
		return nil, nil
	case why != "":
		if err := s.release(ctx, w.node, w.item, why); err != nil {
			return nil, err
		}
		return nil, s.settle(ctx) // it may have been the last that ran
	case ctx.Err() != nil: //guard:attempt/stopped false
		return nil, ctx.Err() // the worker stops: its lease runs out
	case overran: //guard:attempt/time and result.Failure != nil
		result = timeoutResult(w.task)
	}
	return s.finish(ctx, w, result)
}

func attemptSuffix(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", n)
}

func timeoutResult(task *flowspec.Task) executor.Result {
	r := executor.Failed(executor.TaskTimeout, "task %s exceeded timeout_secs=%d", task.Name, task.TimeoutSecs)
	r.Failure.TimedOut = true
	return r
}

// prepare is the attempt as its executor sees it.
func (s *session) prepare(ctx context.Context, w *work) (*executor.Attempt, error) {
	in, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	a := &executor.Attempt{
		Org: s.org, RunID: s.id, Flow: s.run.Flow, Version: s.run.Version, Environment: s.run.Environment, Mode: s.run.Mode,
		TaskRunID: s.attemptID(w), Task: w.task, Number: w.item.Attempt,
		Resumed: w.item.Suspended, Started: w.item.StartedAt.Time(), Artifact: s.run.Artifact, CodeHash: s.run.CodeHash,
		Params:    in.Parameters,
		Trace:     s.span(w),
		Timeout:   time.Duration(w.task.TimeoutSecs) * time.Second,
		OutputKey: runstate.Object(s.org, s.id, fmt.Sprintf("out/%d-%d.json", w.node, w.item.Attempt)),
		Scope:     s.scope,
		Output:    s.outputOf,
		Secret: func(name string) (string, error) {
			if s.Conductor.Secret == nil {
				return "", fmt.Errorf("there is no secret named %s", name)
			}
			return s.Conductor.Secret(ctx, s.org, s.run.Environment, name)
		},
		Log: func(at time.Time, level, logger, message string) { s.line(w, at, level, logger, message) },
	}
	if s.run.Deadline != 0 {
		a.Timeout = min(a.Timeout, s.run.Deadline.Time().Sub(now))
	}
	if w.ref.Kind == engine.KindInstance {
		list, err := s.list(ctx, w.ref.Task, w.parent)
		if err != nil {
			return nil, err
		}
		a.MapIndex = &w.ref.Index
		a.Item = list[w.ref.Index]
	}
	return a, nil
}
