package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
)

// Delays between attempts to write a result.
const (
	firstAgain = 100 * time.Millisecond
	mostAgain  = 5 * time.Second
)

// complete writes the result of an attempt, and repeats the write while stores
// fail, so that the task's work is not lost. The lease is renewed meanwhile; h
// is the attempt's heartbeat if it has one already. complete gives up when the
// worker's time is over, or another worker owns the attempt.
func (a *attempts) complete(ctx context.Context, w *attempt, result executor.Result, h *heartbeat) (outcome, error) {
	for try := 0; ; try++ {
		item, err := a.recordWithin(ctx, w, result, h)
		if err == nil || ctx.Err() != nil { //guard:complete/again true
			return outcome{item: item}, err
		}
		if refused, ok := lasting(err); ok {
			if result.Failure != nil {
				return outcome{}, err
			}
			a.Log.WarnContext(ctx, "result refused", "node", w.node, "error", err)
			result = refused
			continue
		}
		if try == 0 {
			a.Log.WarnContext(ctx, "result not stored yet", "node", w.node, "error", err)
			forget := a.results.wait(len(result.Output.JSON))
			defer forget()
			if h == nil { //guard:complete/lease false
				h = a.heartbeat(ctx, w, false)
				defer h.close()
			}
			h.waiting.Store(true) //guard:complete/outage drop
		}
		if why := h.pause(ctx, min(firstAgain<<min(try, 10), mostAgain)); why != "" && why != leaseLost {
			return outcome{stopped: why}, nil
		}
		if until, limited := ctx.Deadline(); limited && until.Sub(a.Clock.Now()) < WriteMargin/2 {
			return outcome{}, err
		}
	}
}

// recordWithin is record, but a store that does not answer cannot hold it
// longer than the lease allows, or after the run was stopped.
func (a *attempts) recordWithin(ctx context.Context, w *attempt, result executor.Result, h *heartbeat) (*runstate.Node, error) {
	if h == nil {
		//guard:complete/hangs arg 2 100 * Lease
		limited, cancel := context.WithTimeout(ctx, w.item.LeaseUntil.Time().Sub(a.Clock.Now())-2*Heartbeat)
		defer cancel()
		return a.record(limited, w, result)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h, func() {
		if why := h.stopped(); why != "" && why != leaseLost { //guard:complete/hangs-stopped false
			cancel()
		}
	})()
	return a.record(limited, w, result)
}

// pause waits, at most until the attempt must stop, and returns the reason to
// stop. Once the lease is lost it only waits: the write may have ended the
// attempt already.
func (h *heartbeat) pause(ctx context.Context, d time.Duration) string {
	timer := time.NewTimer(d)
	defer timer.Stop()
	over := h.Done()
	if h.stopped() == leaseLost {
		over = ctx.Done()
	}
	select {
	case <-timer.C:
	case <-over:
	}
	return h.stopped()
}

// record writes the result of an attempt: it is suspended, to be retried, or
// finished. It returns the finished item, or nil. It may be repeated.
func (a *attempts) record(ctx context.Context, w *attempt, result executor.Result) (*runstate.Node, error) {
	if !result.Until.IsZero() {
		return nil, a.suspend(ctx, w, result.Until)
	}
	if f := result.Failure; f != nil {
		f.Message, f.Exception, f.Traceback = clip(f.Message), runstate.Shorten(f.Exception, sandbox.MaxException), clipTraceback(f.Traceback)
		// Attempts lost with their workers do not count as retries.
		used := w.item.Attempt - w.item.Lost //guard:retry/lost drop operand 2
		//guard:retry/bound off +1
		//guard:retry/all off -1
		//guard:retry/final drop operand 1
		if !f.Final && used <= w.task.Retries {
			return nil, a.retry(ctx, w, f, used)
		}
	}
	status, kept := engine.Succeeded, executor.Value{}
	do := []table.Action{
		table.Set(runstate.NodeStarted, int64(w.item.StartedAt)), // its code began later than the claim
		table.Set(runstate.NodeEnded, int64(millis(a.Clock.Now()))), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeReason),
	}
	if f := result.Failure; f != nil {
		if status = engine.Failed; f.TimedOut {
			status = engine.TimedOut
		}
		do = append(do, table.Set(runstate.NodeErrorType, f.Type), table.Set(runstate.NodeError, f.Message))
		if f.Exception != "" {
			do = append(do, table.Set(runstate.NodeException, f.Exception))
		}
		if f.Traceback != "" {
			do = append(do, table.Set(runstate.NodeTraceback, f.Traceback))
		}
	} else {
		out, value, err := a.keepOutput(ctx, w.node, w.item.Attempt, result.Output)
		if err != nil {
			return nil, err
		}
		do, kept = append(do, out...), value //guard:output/after-the-write insert a.cache.keep(a.id, w.node, value)
	}
	item, err := a.conclude(ctx, w, status, do, concluded(w))
	if err != nil || item == nil {
		return nil, err
	}
	if status == engine.Succeeded {
		a.cache.keep(a.id, w.node, kept)
		a.event(w, runlog.TypeTaskSucceeded, "info", "Task %s succeeded in %s", w.task.Name, took(item))
	} else {
		a.event(w, runlog.TypeTaskFailed, "error", "Task %s failed: %s: %s", w.task.Name, item.ErrorType, item.Error)
	}
	return item, nil
}

// concluded returns a function that reports whether an item is the result of
// completing the attempt.
func concluded(w *attempt) func(*runstate.Node) bool {
	//guard:conclude/of-another drop operand 1
	return func(item *runstate.Node) bool { return item.Nonce == w.item.Nonce && item.Status.Terminal() }
}

// conclude writes the end of an attempt if the worker still owns its lease.
// Otherwise it returns nil. landed recognizes the write in an item, because the
// response to a successful write can be lost.
func (s *session) conclude(ctx context.Context, w *attempt, to engine.Status, do []table.Action, landed func(*runstate.Node) bool) (*runstate.Node, error) {
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, w.node),
		Do:  append(do, table.Set(runstate.NodeStatus, string(to)), table.Remove(runstate.NodeUnlogged)),
		If: table.And(
			table.Eq(runstate.NodeNonce, w.item.Nonce), //guard:conclude/nonce drop
			from(engine.Complete, to),                  //guard:conclude/finished drop
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
	s.attemptSpan(ctx, w, item, to)
	return item, nil
}

// skip ends a claimed task whose condition is false.
func (a *attempts) skip(ctx context.Context, w *attempt) (*runstate.Node, error) {
	item, err := a.conclude(ctx, w, engine.Skipped, []table.Action{
		table.Set(runstate.NodeEnded, int64(millis(a.Clock.Now()))),
		table.Set(runstate.NodeError, "condition is false: "+clip(w.task.Condition)),
		table.Remove(runstate.NodeLease),
	}, concluded(w))
	if err != nil || item == nil {
		return nil, err
	}
	a.event(w, runlog.TypeTaskSkipped, "info", "Task %s skipped: its condition is false", w.task.Name)
	return item, nil
}

// suspend releases the lease until a later time.
func (a *attempts) suspend(ctx context.Context, w *attempt, until time.Time) error {
	item, err := a.conclude(ctx, w, engine.Running, []table.Action{
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
	a.logEnd(w, runlog.TypeTaskWaiting, "info", "Task %s waits until %s", w.task.Name, millis(until))
	//guard:suspend/message return nil
	return a.send(ctx, []ready{{w.node, w.item.Attempt, millis(until)}}, until.Sub(a.Clock.Now()))
}

// retry ends a failed attempt and enqueues the next one.
func (a *attempts) retry(ctx context.Context, w *attempt, f *executor.Failure, used int) error {
	now := a.Clock.Now()
	delay := w.task.RetryDelay(used)
	status := engine.Failed
	if f.TimedOut {
		status = engine.TimedOut
	}
	traceback := f.Traceback
	if len(w.item.History) >= runstate.MaxTracebacks {
		traceback = ""
	}
	item, err := a.conclude(ctx, w, engine.Retrying, []table.Action{
		table.Set(runstate.NodeAttempt, w.item.Attempt+1), //guard:retry/attempt drop operand 2
		table.Set(runstate.NodeDue, int64(millis(now.Add(delay)))),
		table.Append(runstate.NodeHistory, runstate.Attempt{
			Attempt: w.item.Attempt, Status: status, StartedAt: w.item.StartedAt, EndedAt: millis(now), ErrorType: f.Type, Error: f.Message,
			Exception: f.Exception, Traceback: traceback,
		}),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeDeferred),
		table.Remove(runstate.NodeStarted), table.Remove(runstate.NodeSuspended), table.Remove(runstate.NodeAnnounced),
		table.Remove(runstate.NodeReason), table.Remove(runstate.NodeSlot),
	}, func(item *runstate.Node) bool {
		return item.Status == engine.Retrying && item.Attempt == w.item.Attempt+1 //guard:retry/lost-answer false
	})
	if err != nil || item == nil {
		return err
	}
	a.freeOwn(ctx, w) //guard:slot/retried drop
	a.logEnd(w, runlog.TypeTaskRetrying, "warning", "Task %s failed: %s: %s; attempt %d follows in %s", w.task.Name, f.Type, f.Message, w.item.Attempt+1, delay)
	return a.send(ctx, []ready{{w.node, w.item.Attempt + 1, item.Due}}, delay) //guard:retry/message return nil
}
