package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// finish writes how an attempt ended: suspended, to be retried, or for good.
func (s *session) finish(ctx context.Context, w *work, result executor.Result) (*done, error) {
	now := s.Clock.Now()
	if !result.Until.IsZero() {
		return nil, s.suspend(ctx, w, result.Until)
	}
	if f := result.Failure; f != nil {
		f.Message = clip(f.Message)
		// Attempts lost with their workers are no retries.
		used := w.item.Attempt - w.item.Lost //guard:retry/lost drop operand 2
		//guard:retry/bound off +1
		//guard:retry/all off -1
		//guard:retry/final drop operand 1
		if !f.Final && used <= w.task.Retries {
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
		do, kept = append(do, out...), value //guard:output/after-the-write insert s.cache.keep(s.id, w.node, value)
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
	//guard:conclude/of-another drop operand 1
	return func(item *runstate.Node) bool { return item.Nonce == w.item.Nonce && item.Status.Terminal() }
}

// conclude writes the end of an attempt, if its lease is still ours. It returns
// nil if it is not. landed recognises the write in an item, because the answer
// to a write that was done can be lost.
func (s *session) conclude(ctx context.Context, w *work, do []table.Action, landed func(*runstate.Node) bool) (*runstate.Node, error) {
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, w.node),
		Do:  do,
		If: table.And(
			table.Eq(runstate.NodeNonce, w.item.Nonce),            //guard:conclude/nonce drop
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:conclude/finished drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		item := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, item); err != nil {
			return nil, err
		}
		if landed(item) { //guard:conclude/lost-answer false
			return item, nil
		}
		s.Log.WarnContext(ctx, "result not taken: the lease was lost", "node", w.node)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finish node %d: %w", w.node, err)
	}
	item := &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return nil, err
	}
	if item.Status.Terminal() {
		s.countTask(item.Status)
	}
	return item, nil
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
		//guard:suspend/lost-answer false
		return item.Suspended && item.Nonce == "" && item.Attempt == w.item.Attempt && item.Due == millis(until)
	})
	if err != nil || item == nil {
		return err
	}
	s.event(w, runlog.TypeTaskWaiting, "info", "Task %s waits until %s", w.task.Name, millis(until))
	//guard:suspend/message return nil
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
		table.Set(runstate.NodeAttempt, w.item.Attempt+1), //guard:retry/attempt drop operand 2
		table.Set(runstate.NodeDue, int64(millis(now.Add(delay)))),
		table.Append(runstate.NodeHistory, runstate.Attempt{
			Attempt: w.item.Attempt, Status: status, StartedAt: w.item.StartedAt, EndedAt: millis(now), ErrorType: f.Type, Error: f.Message,
		}),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease),
		table.Remove(runstate.NodeStarted), table.Remove(runstate.NodeSuspended),
	}, func(item *runstate.Node) bool {
		return item.Status == engine.Retrying && item.Attempt == w.item.Attempt+1 //guard:retry/lost-answer false
	})
	if err != nil || item == nil {
		return err
	}
	s.event(w, runlog.TypeTaskRetrying, "warning", "Task %s failed: %s: %s; attempt %d follows in %s", w.task.Name, f.Type, f.Message, w.item.Attempt+1, delay)
	return s.send(ctx, []ready{{w.node, w.item.Attempt + 1}}, delay) //guard:retry/message return nil
}

// release gives up a claimed attempt of a run that was stopped. What it tells
// the log comes first: with the write the run may end, and then its log has.
func (s *session) release(ctx context.Context, n engine.Node, item *runstate.Node, why string) error {
	w := &work{node: n, item: item}
	w.task, _ = s.task(n)
	if w.task != nil && !s.run.Status.RunEnded() { //guard:log/after-the-end drop operand 2
		s.event(w, runlog.TypeTaskCancelled, "warning", "Task %s stopped: %s", w.task.Name, reason(why))
		if !s.Resident {
			if err := s.Logs.Flush(ctx, s.org, s.id); err != nil {
				return err
			}
		}
	}
	_, err := s.conclude(ctx, w, s.cancelled(why), ended(w))
	return err
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
		Do:  []table.Action{table.SetIfAbsent(runstate.RunError, failure)}, //guard:failure/first call table.Set
		//guard:failure/terminal drop
		If: table.In(runstate.RunStatus, string(engine.Running), string(engine.CancellationRequested)),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("note failure: %w", err)
	}
	s.run.Error = failure
	return nil
}
