package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// heartbeat renews an attempt's lease and reads whether the run was stopped.
// Its context ends when the attempt must stop: early enough that it has stopped
// before another worker may claim it, if their clocks agree within [Heartbeat].
type heartbeat struct {
	context.Context
	cancel  context.CancelCauseFunc
	start   *time.Timer   // starts to renew
	unhook  func()        // ends the wait for signals
	done    chan struct{} // closed when a started heartbeat has ended
	item    *runstate.Node
	until   time.Time   // the end of the lease that is certainly stored
	waiting atomic.Bool // the attempt is over and its result is waiting to be stored
	// news: the attempt has not begun some time after its claim, or it has begun.
	// The next renewal, made at once, writes that to its item.
	news   chan struct{}
	marked bool // the item has the mark that the attempt has not begun
}

const (
	// heartbeatStart is how long a heartbeat waits for the attempt to be over. Most
	// are, and save the goroutine, whose start and end cost a short task more than
	// the rest of its bookkeeping. A run that is stopped meanwhile is noticed then.
	heartbeatStart = 20 * time.Millisecond
	// settling is how long an attempt may take to begin before that is written to
	// its item. Most begin within it and save the write.
	settling = 500 * time.Millisecond
)

// preparing is the reason in the item of an attempt whose own code has not
// begun.
const preparing = "It waits until its interpreter has started and imported its module."

// tell renews the lease early if there is news.
func (h *heartbeat) tell() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// begun returns the actions of the next renewal that record whether the attempt
// has begun; none if the item is up to date.
func (h *heartbeat) begun(w *attempt) []table.Action {
	begun := w.begun.Load()
	switch {
	case begun == 0 && !h.marked:
		return []table.Action{table.Remove(runstate.NodeStarted), table.Set(runstate.NodeReason, preparing)}
	case begun != 0 && h.marked:
		return []table.Action{table.Set(runstate.NodeStarted, begun), table.Remove(runstate.NodeReason)}
	}
	return nil
}

// stop is the reason why an attempt had to stop.
type stop string

// Error implements error.
func (s stop) Error() string { return "worker: stopped: " + string(s) }

// heartbeat starts to renew an attempt's lease. prepares has the item marked as
// not begun if that takes long.
func (a *attempts) heartbeat(ctx context.Context, w *attempt, prepares bool) *heartbeat {
	h := &heartbeat{done: make(chan struct{}), news: make(chan struct{}, 1), item: w.item, until: w.item.LeaseUntil.Time()}
	h.Context, h.cancel = context.WithCancelCause(ctx)
	woken, unhook := a.Broker.Wait(runstate.FenceSignal(a.id)) //guard:heartbeat/woken arg 1.1 "nobody"
	h.unhook = unhook
	h.start = time.AfterFunc(heartbeatStart, func() {
		defer close(h.done)
		var settled <-chan time.Time
		if prepares {
			settles := time.NewTimer(settling - heartbeatStart)
			defer settles.Stop()
			settled = settles.C
		}
		a.keep(h, w, woken, settled)
	})
	return h
}

// keep renews the lease until the attempt is over or must stop. At settled an
// attempt that has not begun is marked.
func (a *attempts) keep(h *heartbeat, w *attempt, woken <-chan struct{}, settled <-chan time.Time) {
	next := time.NewTimer(Heartbeat - heartbeatStart)
	defer next.Stop()
	var say []table.Action // nil until there is something to record
	for {
		select {
		case <-h.Done():
			return
		case <-woken:
		case <-next.C:
		case <-settled:
			h.tell()
			continue
		case <-h.news:
			if say = h.begun(w); say == nil {
				continue
			}
		}
		asked := a.Clock.Now()
		limit := min(h.until.Sub(asked)-Heartbeat, 2*Heartbeat)
		if h.waiting.Load() {
			limit = 2 * Heartbeat // only a write is pending, not an execution
		}
		//guard:heartbeat/hangs arg 2 100 * Lease
		limited, done := context.WithTimeout(h, limit)
		why, renewed, err := a.renew(limited, w.node, w.item.Nonce, say...)
		done()
		if renewed {
			h.until = asked.Add(Lease)
			if say != nil {
				h.marked, say = !h.marked, nil
				h.tell() // it may have begun meanwhile
			}
		}
		switch {
		case err != nil && (h.waiting.Load() || h.until.Sub(a.Clock.Now()) > Heartbeat): //guard:heartbeat/fails drop operand 2
			next.Reset(heartbeatAgain) // there is time for another before the lease expires
			continue
		case err != nil:
			why = leaseLost
		case why == "":
			next.Reset(Heartbeat)
			continue
		}
		h.cancel(stop(why))
		return
	}
}

// close stops the heartbeat and sets the lease of the attempt's item.
func (h *heartbeat) close() {
	h.cancel(nil)
	if !h.start.Stop() {
		<-h.done
	}
	h.unhook()
	h.item.LeaseUntil = millis(h.until)
}

// stopped returns why the attempt must stop, "" if it may continue.
func (h *heartbeat) stopped() string {
	if why, ok := errors.AsType[stop](context.Cause(h)); ok {
		return string(why)
	}
	return ""
}

// heartbeatAgain is the delay before a failed heartbeat is repeated.
const heartbeatAgain = time.Second

// renew renews the lease and reads the fence. It returns why the attempt must
// stop, "" if it may continue, and whether the lease was certainly renewed,
// which may be so even if the fence could not be read. say are further actions
// on the item.
func (a *attempts) renew(ctx context.Context, n engine.Node, nonce string, say ...table.Action) (why string, renewed bool, err error) {
	_, err = a.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(a.org, a.id, n),
		Do:  append(say, table.Set(runstate.NodeLease, int64(millis(a.Clock.Now().Add(Lease))))),
		If: table.And(
			table.Eq(runstate.NodeNonce, nonce),                   //guard:heartbeat/nonce drop
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:heartbeat/finished drop
		),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return leaseLost, false, nil
	}
	if err != nil {
		return "", false, err
	}
	//guard:heartbeat/consistent drop arg 4
	run, err := table.Load[runstate.Run](ctx, a.Table, runstate.RunKey(a.org, a.id), table.Consistent)
	if err != nil {
		return "", true, err
	}
	return run.Fenced(a.Clock.Now()), true, nil //guard:heartbeat/fence return "", true, nil
}

// fresh checks that an attempt still has its lease when it begins, because the
// worker may have been paused since the claim. It returns why the attempt must
// not begin, "" if it may.
func (a *attempts) fresh(ctx context.Context, w *attempt) (string, error) {
	for {
		now := a.Clock.Now()
		if w.item.LeaseUntil.Time().Sub(now) > Lease/2 { //guard:begin/lease true
			return "", nil
		}
		why, _, err := a.renew(ctx, w.node, w.item.Nonce)
		if err != nil || why != "" { //guard:begin/stopped drop operand 2
			return why, err
		}
		w.item.LeaseUntil = millis(now.Add(Lease))
	}
}
