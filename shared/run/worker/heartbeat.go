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

// heartbeat keeps an attempt's lease, and reads whether the run was stopped. Its
// context ends when the attempt must stop: early enough that it has stopped
// before another owner may claim it, on clocks that agree within [Heartbeat].
type heartbeat struct {
	context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{}
	item    *runstate.Node
	until   time.Time   // the end of the lease as the table has it for sure
	waiting atomic.Bool // the attempt is over and its result waits to be stored
	// news: the attempt is not begun a while after its claim, or has begun; its
	// item says so from the next renewal on, which is made at once.
	news   chan struct{}
	marked bool // the item says that the attempt has not begun
}

// settling is how long an attempt may take to begin before its item says that it
// has not: most begin within it, and cost no write then.
const settling = 500 * time.Millisecond

// preparing is what the item of an attempt says whose own code has not begun.
const preparing = "It waits until its interpreter has started and imported its module."

// prepares has the item say that the attempt has not begun, if that takes long.
func (h *heartbeat) prepares(w *attempt) {
	timer := time.AfterFunc(settling, func() {
		if w.begun.Load() == 0 {
			h.tell()
		}
	})
	context.AfterFunc(h, func() { timer.Stop() })
}

// tell has the heartbeat renew the lease if there is something new to say.
func (h *heartbeat) tell() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// begun is what the next renewal is to say of an attempt's begin: nothing, if the
// item says so already.
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

// stop is why an attempt had to stop.
type stop string

// Error names the reason.
func (s stop) Error() string { return "worker: stopped: " + string(s) }

// heartbeat begins to keep an attempt's lease.
func (a *attempts) heartbeat(ctx context.Context, w *attempt) *heartbeat {
	h := &heartbeat{done: make(chan struct{}), news: make(chan struct{}, 1), item: w.item, until: w.item.LeaseUntil.Time()}
	h.Context, h.cancel = context.WithCancelCause(ctx)
	woken, unhook := a.Hub.Wait(runstate.FenceSignal(a.id)) //guard:heartbeat/woken arg 1.1 "nobody"
	go func() {
		defer close(h.done)
		defer unhook()
		a.keep(h, w, woken)
	}()
	return h
}

// keep renews the lease until the attempt is over or must stop.
func (a *attempts) keep(h *heartbeat, w *attempt, woken <-chan struct{}) {
	next := time.NewTimer(Heartbeat)
	defer next.Stop()
	var say []table.Action // once the item is to say something
	for {
		select {
		case <-h.Done():
			return
		case <-woken:
		case <-next.C:
		case <-h.news:
			if say = h.begun(w); say == nil {
				continue
			}
		}
		asked := a.Clock.Now()
		limit := min(h.until.Sub(asked)-Heartbeat, 2*Heartbeat)
		if h.waiting.Load() {
			limit = 2 * Heartbeat // what is late now is a write, and no execution
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
			next.Reset(heartbeatAgain) // another fits before the lease is over
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

// close stops the heartbeat. The attempt's item then has its lease.
func (h *heartbeat) close() {
	h.cancel(nil)
	<-h.done
	h.item.LeaseUntil = millis(h.until)
}

// stopped is why the attempt must stop, "" if it may go on.
func (h *heartbeat) stopped() string {
	if why, ok := errors.AsType[stop](context.Cause(h)); ok {
		return string(why)
	}
	return ""
}

// heartbeatAgain is when a heartbeat that failed is made again.
const heartbeatAgain = time.Second

// renew keeps the lease, and reads the fence. It returns why the attempt must
// stop, "" if it may go on, and whether the lease was renewed for sure, which it
// may have been if the fence could not be read. say is what the item says of the
// attempt from then on.
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

// fresh makes sure that an attempt still has its lease when it begins: a worker
// may have stood still since it claimed it. It returns why the attempt must not
// begin, "" if it may.
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
