package conductor

import (
	"context"
	"encoding/json"
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
	"millrace/shared/table"
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

// pick keeps one ready node for this worker and enqueues the others.
func (s *session) pick(ctx context.Context) (*ready, error) {
	nodes := s.ready
	s.ready = nil
	if len(nodes) == 0 {
		return nil, nil
	}
	if until, ok := ctx.Deadline(); ok && until.Sub(s.Clock.Now()) < s.need(nodes[0].node)+WriteMargin {
		return nil, s.send(ctx, nodes, 0)
	}
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
		s.Log.Warn("lease lost", "run", s.id, "node", w.node)
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
		TaskRunID: runstate.TaskRunID(s.id, w.node, w.item.Attempt), Task: w.task, Number: w.item.Attempt,
		Resumed: w.item.Suspended, Started: w.item.StartedAt.Time(), Artifact: s.run.Artifact, CodeHash: s.run.CodeHash,
		Params:    in.Parameters,
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

// finish writes how an attempt ended: suspended, to be retried, or for good.
func (s *session) finish(ctx context.Context, w *work, result executor.Result) (*done, error) {
	now := s.Clock.Now()
	if !result.Until.IsZero() {
		return nil, s.suspend(ctx, w, result.Until)
	}
	if f := result.Failure; f != nil {
		f.Message = clip(f.Message)
		// Attempts lost with their workers are no retries.
		if used := w.item.Attempt - w.item.Lost; !f.Final && used <= w.task.Retries {
			return nil, s.retry(ctx, w, f, used)
		}
	}
	status, kept := engine.Succeeded, executor.Value{}
	do := []table.Action{table.Set(runstate.NodeEnded, int64(millis(now))), table.Remove(runstate.NodeLease)}
	if f := result.Failure; f != nil {
		if status = engine.Failed; f.TimedOut {
			status = engine.TimedOut
		}
		do = append(do, table.Set(runstate.NodeErrorType, f.Type), table.Set(runstate.NodeError, f.Message))
	} else {
		out, value, err := s.keepOutput(ctx, w.node, w.item.Attempt, result.Output)
		if err != nil {
			return nil, err
		}
		do, kept = append(do, out...), value
	}
	item, err := s.conclude(ctx, w, append(do, table.Set(runstate.NodeStatus, string(status))), ended(w))
	if err != nil || item == nil {
		return nil, err
	}
	if status == engine.Succeeded {
		s.cache.keep(s.id, w.node, kept)
		s.event(w, runlog.TypeTaskSucceeded, "info", "Task %s succeeded in %s", w.task.Name, took(item))
	} else {
		s.event(w, runlog.TypeTaskFailed, "error", "Task %s failed: %s: %s", w.task.Name, item.ErrorType, item.Error)
	}
	return s.finished(ctx, w.node, item)
}

// ended tells of an item that it is what ending the attempt made of it.
func ended(w *work) func(*runstate.Node) bool {
	return func(item *runstate.Node) bool { return item.Nonce == w.item.Nonce && item.Status.Terminal() }
}

// conclude writes the end of an attempt, if its lease is still ours. It returns
// nil if it is not. landed recognises the write in an item, because the answer
// to a write that was done can be lost.
func (s *session) conclude(ctx context.Context, w *work, do []table.Action, landed func(*runstate.Node) bool) (*runstate.Node, error) {
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, w.node),
		Do:  do,
		If:  table.And(table.Eq(runstate.NodeNonce, w.item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		item := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, item); err != nil {
			return nil, err
		}
		if landed(item) {
			return item, nil
		}
		s.Log.Warn("result not taken: the lease was lost", "run", s.id, "node", w.node)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finish node %d: %w", w.node, err)
	}
	item := &runstate.Node{}
	return item, table.Unmarshal(stored, item)
}

// skip ends a claimed task whose condition does not hold.
func (s *session) skip(ctx context.Context, w *work) (*done, error) {
	item, err := s.conclude(ctx, w, []table.Action{
		table.Set(runstate.NodeStatus, string(engine.Skipped)),
		table.Set(runstate.NodeEnded, int64(millis(s.Clock.Now()))),
		table.Set(runstate.NodeError, "condition is false: "+clip(w.task.Condition)),
		table.Remove(runstate.NodeLease),
	}, ended(w))
	if err != nil || item == nil {
		return nil, err
	}
	s.event(w, runlog.TypeTaskSkipped, "info", "Task %s skipped: its condition is false", w.task.Name)
	return s.finished(ctx, w.node, item)
}

// suspend gives the lease back until a later time.
func (s *session) suspend(ctx context.Context, w *work, until time.Time) error {
	item, err := s.conclude(ctx, w, []table.Action{
		table.Set(runstate.NodeDue, int64(millis(until))),
		table.Set(runstate.NodeSuspended, true),
		table.Remove(runstate.NodeNonce),
		table.Remove(runstate.NodeLease),
	}, func(item *runstate.Node) bool {
		return item.Suspended && item.Nonce == "" && item.Attempt == w.item.Attempt && item.Due == millis(until)
	})
	if err != nil || item == nil {
		return err
	}
	s.event(w, runlog.TypeTaskWaiting, "info", "Task %s waits until %s", w.task.Name, millis(until))
	return s.send(ctx, []ready{{w.node, w.item.Attempt}}, until.Sub(s.Clock.Now()))
}

// retry ends an attempt that failed and enqueues the next.
func (s *session) retry(ctx context.Context, w *work, f *executor.Failure, used int) error {
	now := s.Clock.Now()
	delay := w.task.RetryDelay(used)
	status := engine.Failed
	if f.TimedOut {
		status = engine.TimedOut
	}
	item, err := s.conclude(ctx, w, []table.Action{
		table.Set(runstate.NodeStatus, string(engine.Retrying)),
		table.Set(runstate.NodeAttempt, w.item.Attempt+1),
		table.Set(runstate.NodeDue, int64(millis(now.Add(delay)))),
		table.Append(runstate.NodeHistory, runstate.Attempt{
			Attempt: w.item.Attempt, Status: status, StartedAt: w.item.StartedAt, EndedAt: millis(now), ErrorType: f.Type, Error: f.Message,
		}),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease),
		table.Remove(runstate.NodeStarted), table.Remove(runstate.NodeSuspended),
	}, func(item *runstate.Node) bool {
		return item.Status == engine.Retrying && item.Attempt == w.item.Attempt+1
	})
	if err != nil || item == nil {
		return err
	}
	s.event(w, runlog.TypeTaskRetrying, "warning", "Task %s failed: %s: %s; attempt %d follows in %s", w.task.Name, f.Type, f.Message, w.item.Attempt+1, delay)
	return s.send(ctx, []ready{{w.node, w.item.Attempt + 1}}, delay)
}

// release gives up a claimed attempt of a run that was stopped.
func (s *session) release(ctx context.Context, n engine.Node, item *runstate.Node, why string) error {
	w := &work{node: n, item: item}
	w.task, _ = s.task(n)
	stored, err := s.conclude(ctx, w, s.cancelled(why), ended(w))
	if err != nil || stored == nil {
		return err
	}
	if w.task != nil {
		s.event(w, runlog.TypeTaskCancelled, "warning", "Task %s stopped: %s", w.task.Name, reason(why))
	}
	return nil
}

// cancelled is what ends an attempt of a run that was stopped.
func (s *session) cancelled(why string) []table.Action {
	return []table.Action{
		table.Set(runstate.NodeStatus, string(engine.Cancelled)),
		table.Set(runstate.NodeErrorType, executor.Cancelled),
		table.Set(runstate.NodeError, reason(why)),
		table.Set(runstate.NodeEnded, int64(millis(s.Clock.Now()))),
		table.Remove(runstate.NodeLease),
	}
}

func reason(why string) string {
	switch why {
	case runstate.FenceCancel:
		return "The run was cancelled."
	case runstate.FenceDeadline:
		return "The run passed its timeout_secs."
	}
	return "The run is over."
}

// noteFailure keeps the first failure on the run, as its error_message. It
// comes before anything that could end the run.
func (s *session) noteFailure(ctx context.Context, failure string) error {
	if s.run.Error != "" {
		return nil
	}
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.RunKey(s.org, s.id),
		Do:  []table.Action{table.SetIfAbsent(runstate.RunError, failure)},
		If:  table.In(runstate.RunStatus, string(engine.Running), string(engine.CancellationRequested)),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("note failure: %w", err)
	}
	s.run.Error = failure
	return nil
}

// event logs something that happened to an attempt.
func (s *session) event(w *work, kind, level, format string, args ...any) {
	e := s.about(w)
	e.EventType, e.Level, e.Logger = kind, level, "millrace"
	e.Message, e.Timestamp = fmt.Sprintf(format, args...), millis(s.Clock.Now())
	s.Logs.Append(s.org, s.id, e)
}

// line logs a line that a task wrote.
func (s *session) line(w *work, at time.Time, level, logger, message string) {
	e := s.about(w)
	e.EventType, e.Level, e.Logger, e.Message = runlog.TypeLog, level, logger, message
	if at.IsZero() {
		at = s.Clock.Now()
	}
	e.Timestamp, e.Sequence = millis(at), w.lines.Add(1)
	s.Logs.Append(s.org, s.id, e)
}

func (s *session) about(w *work) runlog.Event {
	e := runlog.Event{RunID: s.id, Attempt: w.item.Attempt, TaskRunID: runstate.TaskRunID(s.id, w.node, w.item.Attempt)}
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

// encodeJSON is JSON as outputs and lists are kept.
func encodeJSON(v any) (json.RawMessage, error) { return expr.Encode(v) }
