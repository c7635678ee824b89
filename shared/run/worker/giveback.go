package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// Delays before a released attempt is tried again.
const (
	firstDefer = time.Second
	mostDefer  = time.Minute
)

// missingObject is the error of an object that does not exist: waiting does not
// bring it back.
type missingObject string

// Error implements error.
func (m missingObject) Error() string {
	return fmt.Sprintf("object %s is gone from the object store", string(m))
}

func missing(key string) error { return missingObject(key) }

// lasting distinguishes an error that waiting does not mend from that of a
// service that is temporarily unavailable. The result is that of the attempt.
func lasting(err error) (executor.Result, bool) {
	var gone missingObject
	switch {
	case errors.As(err, &gone):
		return executor.Final(executor.StorageFailed, "%s", gone.Error()), true
	case errors.Is(err, table.ErrNotFound):
		return executor.Final(executor.StorageFailed, "an item that the task needs is gone from the table"), true
	case errors.Is(err, blob.ErrNotFound):
		return executor.Final(executor.StorageFailed, "an object that the task needs is gone from the object store"), true
	case errors.Is(err, blob.ErrDamaged):
		return executor.Final(executor.StorageFailed, "an object that the task needs is damaged in the object store"), true
	case errors.Is(err, blob.ErrTooLarge), errors.Is(err, blob.ErrSize), errors.Is(err, table.ErrLimit):
		return executor.Final(executor.Serialization, "what the task hands on is larger than can be stored"), true
	case errors.Is(err, table.ErrInvalid), errors.Is(err, blob.ErrKey), errors.Is(err, blob.ErrArgument):
		return executor.Final(executor.StorageFailed, "what the task hands on cannot be stored"), true
	}
	return executor.Result{}, false
}

// unable handles a claimed attempt that could not begin. A permanent error ends
// it; otherwise it is released.
func (a *attempts) unable(ctx context.Context, w *attempt, err error) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, err // the worker stops and its lease expires
	}
	if errors.Is(err, errNoRun) {
		return outcome{}, err
	}
	if result, ok := lasting(err); ok && w.task != nil {
		a.Log.WarnContext(ctx, "attempt cannot begin", "node", w.node, "error", err)
		return a.complete(ctx, w, result, nil)
	}
	a.Log.WarnContext(ctx, "attempt given back", "node", w.node, "deferred", w.item.Deferred, "error", err)
	reason := "A service that it needs did not answer."
	if errors.Is(err, errMemory) {
		reason = "Other tasks hold the memory for outputs."
	}
	given, failed := a.giveBack(ctx, w, reason)
	if failed == nil && !given {
		failed = err // the write may have been made: its message will show
	}
	return outcome{}, failed
}

// backoff returns the delay before a released attempt is tried again. It is
// shortened by up to half, by an amount that differs between attempts and stays
// the same for one: a thousand attempts that were refused together must not come
// back together, or most would be refused again, and what gets free in between
// would stay unused.
func (a *attempts) backoff(w *attempt) time.Duration {
	delay := min(firstDefer<<min(w.item.Deferred, 10), mostDefer)
	h := fnv.New32a()
	fmt.Fprintf(h, "%s-%d-%d", a.id, w.node, w.item.Deferred)
	return delay - time.Duration(uint64(delay/2)*uint64(h.Sum32())>>32)
}

// giveBack releases the lease of an attempt whose own code has not begun, for
// an external reason, and enqueues it again. This counts neither as a retry nor
// as a lost worker; only the run's deadline limits it. reason is shown to
// users. It returns false if the worker no longer owns the lease.
func (a *attempts) giveBack(ctx context.Context, w *attempt, reason string) (bool, error) {
	delay := a.backoff(w)
	due := millis(a.Clock.Now().Add(delay))
	status := engine.Queued
	do := []table.Action{
		table.Set(runstate.NodeDue, int64(due)), table.Set(runstate.NodeReason, reason),
		table.Set(runstate.NodeDeferred, w.item.Deferred+1),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease), table.Remove(runstate.NodeSlot),
	}
	if w.announced {
		do = append(do, table.Set(runstate.NodeAnnounced, true)) //guard:give-back/announced drop
	}
	if w.item.Suspended { //guard:give-back/suspended false
		status = engine.Running
	} else {
		do = append(do, table.Remove(runstate.NodeStarted))
	}
	landed := func(item *runstate.Node) bool {
		return item.Nonce == "" && item.Attempt == w.item.Attempt && item.Deferred == w.item.Deferred+1
	}
	for try := 0; ; try++ {
		item, err := a.conclude(ctx, w, status, do, landed)
		if err == nil && item == nil {
			return false, nil
		}
		if err == nil {
			a.freeOwn(ctx, w) //guard:slot/given-back drop
			if w.task != nil {
				a.logEnd(w, runlog.TypeTaskDeferred, "warning", "Task %s could not begin: %s It is tried again in %s", w.task.Name, reason, delay.Round(100*time.Millisecond))
			}
			if err = a.send(ctx, []ready{{w.node, w.item.Attempt, due}}, delay); err == nil { //guard:give-back/message return true, nil
				return true, nil
			}
		}
		left := w.item.LeaseUntil.Time().Sub(a.Clock.Now())
		if ctx.Err() != nil || left < Heartbeat { //guard:give-back/again true
			return false, err
		}
		sleep(ctx, min(firstAgain<<min(try, 10), mostAgain, left))
	}
}
