package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/shared/clock"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/ids"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
	"millrace/shared/telemetry"
)

func millis(t time.Time) clock.Millis { return clock.ToMillis(t) }

// claim takes a lease on an attempt. It returns the claimed item; or, if the
// attempt is not to be had, nil and the item as it stands: finished already,
// somebody else's, or not due. What such an item still needs has been seen to.
func (s *session) claim(ctx context.Context, r ready) (mine, other *runstate.Node, err error) {
	now, nonce := s.Clock.Now(), s.Boot+"."+ids.Token(9)
	due := table.And(
		table.Eq(runstate.NodeAttempt, r.attempt),      //guard:claim/attempt drop
		table.Le(runstate.NodeDue, int64(millis(now))), //guard:claim/due drop
	)
	item, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, r.node),
		Do: []table.Action{
			table.Set(runstate.NodeStatus, string(engine.Running)),
			table.Set(runstate.NodeAttempt, r.attempt),
			table.Set(runstate.NodeNonce, nonce),
			table.Set(runstate.NodeLease, int64(millis(now.Add(Lease)))),
			table.SetIfAbsent(runstate.NodeStarted, int64(millis(now))),
			table.Set(runstate.NodeChain, s.chain), //guard:inline/marked drop
			table.Remove(runstate.NodeDue),
		},
		If: table.Or(
			//guard:claim/finished insert table.Eq(runstate.NodeStatus, string(engine.Succeeded))
			table.Absent(runstate.NodeStatus),
			table.And(table.Eq(runstate.NodeStatus, string(engine.Retrying)), due),
			table.And( //guard:claim/suspended drop arg 2
				table.Eq(runstate.NodeStatus, string(engine.Running)),
				table.Absent(runstate.NodeNonce), due, //guard:claim/lease drop
			),
		),
	})
	if err == nil {
		mine = &runstate.Node{}
		return mine, nil, table.Unmarshal(item, mine)
	}
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok {
		return nil, nil, fmt.Errorf("claim node %d: %w", r.node, err)
	}
	old := &runstate.Node{}
	if err := table.Unmarshal(failed.Old, old); err != nil {
		return nil, nil, err
	}
	//guard:claim/lost-answer false
	if old.Nonce == nonce { // the claim was written, its answer lost
		return old, nil, nil
	}
	return s.blocked(ctx, r, old, now)
}

// blocked sees to an attempt that could not be claimed as it stands.
func (s *session) blocked(ctx context.Context, r ready, old *runstate.Node, now time.Time) (mine, other *runstate.Node, err error) {
	switch {
	case old.Status.Terminal():
		return nil, old, nil
	//guard:map/under-way operand 2 old.Due != 0
	case old.Status == engine.Running && old.Width != nil: // its instances are under way
		return nil, old, nil
	case old.Nonce == "" && old.Due != 0:
		// A retry or a suspended task before its time, or a message of an
		// earlier attempt: whoever made the item wait may have died before it
		// sent the message, so send it again.
		if wait := old.Due.Time().Sub(now); wait > 0 || old.Attempt != r.attempt {
			return nil, old, s.send(ctx, []ready{{r.node, old.Attempt}}, wait) //guard:claim/too-early return nil, old, nil
		}
		return nil, old, nil
	case old.Status == engine.Running && old.Nonce != "":
		if s.held(old, now) {
			s.busy = max(old.LeaseUntil.Time().Sub(now)+time.Second, time.Second) //guard:claim/busy drop
			return nil, old, nil
		}
		return s.takeOver(ctx, r, old, now)
	}
	return nil, old, nil
}

// held reports whether the item's lease lives.
func (s *session) held(n *runstate.Node, now time.Time) bool {
	//guard:lease/of-others drop operand 2.1
	//guard:lease/of-earlier drop operand 2
	if n.Nonce == "" || (s.Sole && !strings.HasPrefix(n.Nonce, s.Boot+".")) {
		return false
	}
	//guard:lease/ends true
	//guard:lease/lives false
	return n.LeaseUntil.Time().After(now)
}

// takeOver starts a new attempt in place of one whose worker was lost. It does
// not count as a retry, but the tenth ends the task.
func (s *session) takeOver(ctx context.Context, r ready, old *runstate.Node, now time.Time) (mine, other *runstate.Node, err error) {
	nonce := s.Boot + "." + ids.Token(9)
	lost := runstate.Attempt{
		Attempt: old.Attempt, Status: engine.Failed, StartedAt: old.StartedAt, EndedAt: millis(now),
		ErrorType: executor.WorkerLost, Error: "The worker that ran this attempt was lost.",
	}
	do := []table.Action{
		table.Set(runstate.NodeLost, old.Lost+1), //guard:take-over/count drop operand 2
		table.Set(runstate.NodeChain, s.chain),
	}
	ends := old.Lost+1 >= MaxLost //guard:take-over/tenth off +1
	if ends {
		do = append(do,
			table.Set(runstate.NodeStatus, string(engine.Failed)),
			table.Set(runstate.NodeErrorType, lost.ErrorType),
			table.Set(runstate.NodeError, fmt.Sprintf("The worker was lost %d times while it ran this task.", MaxLost)),
			table.Set(runstate.NodeEnded, int64(millis(now))),
			table.Remove(runstate.NodeLease),
		)
	} else {
		do = append(do,
			table.Append(runstate.NodeHistory, lost),
			table.Set(runstate.NodeAttempt, old.Attempt+1), //guard:take-over/attempt drop operand 2
			table.Set(runstate.NodeNonce, nonce),
			table.Set(runstate.NodeLease, int64(millis(now.Add(Lease)))),
			table.Set(runstate.NodeStarted, int64(millis(now))),
		)
	}
	item, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, r.node),
		Do:  do,
		// Not if it was renewed meanwhile: then its worker lives.
		If: table.And(
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:take-over/running drop
			table.Eq(runstate.NodeNonce, old.Nonce),               //guard:take-over/nonce drop
			table.Eq(runstate.NodeLease, int64(old.LeaseUntil)),   //guard:take-over/renewed drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		// Its worker finished it after all, or another took it over.
		now := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, now); err != nil {
			return nil, nil, err
		}
		if now.Nonce == nonce { //guard:take-over/lost-answer false
			return now, nil, nil
		}
		if !now.Status.Terminal() {
			s.busy = time.Second
		}
		return nil, now, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take over node %d: %w", r.node, err)
	}
	got := &runstate.Node{}
	if err := table.Unmarshal(item, got); err != nil {
		return nil, nil, err
	}
	s.Metrics.Count(telemetry.LeasesLost, s.tier())
	if ends {
		s.countTask(got.Status)
	}
	s.Logs.Append(s.org, s.id, runlog.Event{
		EventType: runlog.TypeTaskLost, Level: "warning", Logger: "millrace", RunID: s.id, Attempt: old.Attempt,
		TaskRunID: runstate.TaskRunID(s.id, r.node, old.Attempt), Timestamp: millis(now), Message: lost.Error,
	})
	if ends {
		return nil, got, nil
	}
	return got, nil, nil
}

// renew keeps the lease, and reads the fence. It returns why the attempt must
// stop, "" if it may go on.
func (s *session) renew(ctx context.Context, n engine.Node, nonce string) (string, error) {
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n),
		Do:  []table.Action{table.Set(runstate.NodeLease, int64(millis(s.Clock.Now().Add(Lease))))},
		If: table.And(
			table.Eq(runstate.NodeNonce, nonce),                   //guard:heartbeat/nonce drop
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:heartbeat/finished drop
		),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return "lost", nil
	}
	if err != nil {
		return "", err
	}
	//guard:heartbeat/consistent drop arg 4
	run, err := table.Load[runstate.Run](ctx, s.Table, runstate.RunKey(s.org, s.id), table.Consistent)
	if err != nil {
		return "", err
	}
	return run.Fenced(s.Clock.Now()), nil //guard:heartbeat/fence return "", nil
}

// fresh makes sure that an attempt still has its lease when it begins: a worker
// may have stood still since it claimed it. If it has not, or the run was
// stopped meanwhile, nothing may run.
func (s *session) fresh(ctx context.Context, w *work) (bool, error) {
	for {
		now := s.Clock.Now()
		if w.item.LeaseUntil.Time().Sub(now) > Lease/2 { //guard:begin/lease true
			return true, nil
		}
		why, err := s.renew(ctx, w.node, w.item.Nonce)
		switch {
		case err != nil:
			return false, err
		case why == "lost":
			s.Log.WarnContext(ctx, "lease lost", "node", w.node)
			return false, nil
		case why != "": //guard:begin/stopped false
			return false, s.release(ctx, w.node, w.item, why)
		}
		w.item.LeaseUntil = millis(now.Add(Lease))
	}
}

// hold keeps an attempt's lease while it runs. The context it returns ends when
// the attempt must stop; stopped then tells why.
func (s *session) hold(ctx context.Context, n engine.Node, nonce string) (held context.Context, stopped func() string) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	woken, unhook := s.Hub.Wait(runstate.FenceSignal(s.id)) //guard:heartbeat/woken arg 1.1 "nobody"
	go func() {
		defer close(done)
		defer unhook()
		tick := time.NewTicker(Heartbeat)
		defer tick.Stop()
		renewed := s.Clock.Now()
		for {
			select {
			case <-held.Done():
				return
			case <-woken:
			case <-tick.C:
			}
			why, err := s.renew(held, n, nonce)
			switch {
			case err != nil && s.Clock.Now().Sub(renewed) < Lease-Heartbeat: //guard:heartbeat/fails drop operand 2
				continue // another heartbeat fits before the lease is over
			case err != nil:
				why = "lost"
			case why == "":
				renewed = s.Clock.Now()
				continue
			}
			cancel(stop(why))
			return
		}
	}()
	return held, func() string {
		cancel(nil)
		<-done
		if why, ok := errors.AsType[stop](context.Cause(held)); ok {
			return string(why)
		}
		return ""
	}
}

// stop is why an attempt had to stop.
type stop string

// Error names the reason.
func (s stop) Error() string { return "conductor: stopped: " + string(s) }
