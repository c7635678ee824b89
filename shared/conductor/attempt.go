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
	"millrace/shared/queue"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
)

// done is a finished node, as a walk goes on from it.
type done struct {
	node    engine.Node
	outcome engine.Outcome
	width   int    // of the map that the node belongs to
	failure string // how it failed, "" if it did not
}

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

// drive runs an attempt and goes on with what it makes ready, one task after
// the other, as long as there is one and time for it. The rest is enqueued.
func (s *session) drive(ctx context.Context, r ready) error {
	for own := true; ; own = false {
		finished, err := s.attempt(ctx, r, own)
		if err != nil || finished == nil {
			return err
		}
		if err := s.walk(ctx, *finished); err != nil {
			return err
		}
		next, err := s.pick(ctx)
		if err != nil || next == nil {
			return err
		}
		r = *next
	}
}

// The bounds of what hangs on one message, because all of it is walked again if
// the message is delivered again, by a crash for one.
const (
	// MaxInline is how many tasks a worker runs one after the other.
	MaxInline = 256
	// maxSiblings is how many ready nodes it keeps one of.
	maxSiblings = queue.MaxBatch
)

// pick keeps one ready node for this worker and enqueues the others.
func (s *session) pick(ctx context.Context) (*ready, error) {
	nodes := s.ready
	s.ready = nil
	if len(nodes) == 0 {
		return nil, nil
	}
	until, limited := ctx.Deadline()
	late := limited && until.Sub(s.Clock.Now()) < s.need(nodes[0].node)+WriteMargin
	if late || len(nodes) > maxSiblings || s.inline >= MaxInline {
		return nil, s.send(ctx, nodes, 0)
	}
	s.inline++
	if err := s.send(ctx, nodes[1:], 0); err != nil {
		return nil, err
	}
	return &nodes[0], nil
}

// need is how long a node may take.
func (s *session) need(n engine.Node) time.Duration {
	task, err := s.task(n)
	if err != nil {
		return 0
	}
	return time.Duration(task.TimeoutSecs) * time.Second
}

// task is the definition of the task that a node runs.
func (s *session) task(n engine.Node) (*flowspec.Task, error) {
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	switch {
	case ref.Kind == engine.KindOnFailure && s.flow.OnFailure != nil:
		return s.flow.OnFailure, nil
	case ref.Kind == engine.KindTask || ref.Kind == engine.KindInstance:
		return &s.flow.Tasks[ref.Task], nil
	}
	return nil, fmt.Errorf("conductor: node %d of run %s runs no task", n, s.id)
}

// attempt claims a node and runs it. It returns the finished node if the walk
// is to go on from it. own says that the message is about this very node.
func (s *session) attempt(ctx context.Context, r ready, own bool) (*done, error) {
	item, other, err := s.claim(ctx, r)
	if err != nil {
		return nil, err
	}
	if item == nil {
		if !own && other.Chain != s.chain {
			return nil, nil // its own message sees to it
		}
		return s.resume(ctx, r.node, other)
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	if why := s.run.Fenced(s.Clock.Now()); why != "" {
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
		return nil, s.begunParts(ctx, n, *item.Width)
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
			case !holds:
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
	case ctx.Err() != nil:
		return nil, ctx.Err() // the worker stops: its lease runs out
	case overran:
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

// event logs something that happened to an attempt.
func (s *session) event(w *work, kind, level, format string, args ...any) {
	e := s.attemptEvent(w)
	e.EventType, e.Level, e.Logger = kind, level, "millrace"
	e.Message, e.Timestamp = fmt.Sprintf(format, args...), millis(s.Clock.Now())
	s.Logs.Append(s.org, s.id, e)
}

// line logs a line that a task wrote.
func (s *session) line(w *work, at time.Time, level, logger, message string) {
	e := s.attemptEvent(w)
	e.EventType, e.Level, e.Logger, e.Message = runlog.TypeLog, level, logger, message
	if at.IsZero() {
		at = s.Clock.Now()
	}
	e.Timestamp, e.Sequence = millis(at), w.lines.Add(1)
	s.Logs.Append(s.org, s.id, e)
}

// attemptID is the id of an attempt's record.
func (s *session) attemptID(w *work) string {
	if w.id == "" {
		w.id = runstate.TaskRunID(s.id, w.node, w.item.Attempt)
	}
	return w.id
}

func (s *session) attemptEvent(w *work) runlog.Event {
	e := runlog.Event{RunID: s.id, Attempt: w.item.Attempt, TaskRunID: s.attemptID(w)}
	if w.task != nil {
		e.TaskName = w.task.Name
	}
	if w.ref.Kind == engine.KindInstance {
		e.MapIndex = &w.ref.Index
	}
	return e
}

func took(item *runstate.Node) time.Duration {
	return item.EndedAt.Time().Sub(item.StartedAt.Time())
}

// clip cuts a message to what a record keeps.
func clip(s string) string {
	if len(s) <= runstate.MaxMessage {
		return s
	}
	return string([]rune(s[:runstate.MaxMessage])) + "…"
}
