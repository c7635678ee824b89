package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runstate"
)

// attempt is a claimed attempt of a task or of a map's instance.
type attempt struct {
	ref    engine.Ref
	node   engine.Node
	item   *runstate.Node // at the time of the claim
	task   *flowspec.Task
	parent *runstate.Node // of an instance: the mapped task's item
	lines  atomic.Int64   // number of log lines so far
	id     string         // see attemptID
	told   bool           // the log has its end
	// announced means that the log has its start, or will have it before its other
	// events: it is unlogged until then.
	announced bool
	// unlogged is when a runner began it, if the log lacks its start; otherwise 0.
	unlogged clock.Millis
	// begun is when the attempt's own code began, in milliseconds. It is 0 before,
	// and for task types that do not report it.
	begun atomic.Int64
}

// outcome is the result of trying to make an attempt.
type outcome struct {
	// item is the node's item if something follows from it: the node is finished,
	// or is a map whose list is evaluated.
	item *runstate.Node
	// stopped is why the run was stopped, empty if it was not. If it is set the
	// attempt is claimed and must be cancelled.
	stopped string
}

// attempts makes the attempts of tasks: it claims them, keeps their leases
// during execution, and completes them.
type attempts struct {
	values
	place *place // slot of the next attempt, if its task type needs one
	heir  *heir  // may make the next attempt; nil: there is none
	began bool   // an attempt of this message has begun
}

// leaseLost is the reason to stop when another worker owns the attempt, or may
// own it.
const leaseLost = "lost"

// try claims a node and makes the attempt. own means that the message is about
// this node. If it is not, and the node cannot be claimed, the node's own
// message takes care of it.
func (a *attempts) try(ctx context.Context, r ready, own bool) (out outcome, err error) {
	item, other, err := a.claim(ctx, r)
	if err != nil {
		return outcome{}, err
	}
	if item == nil {
		if !own && other.Chain != a.chain { //guard:inline/again drop operand 2
			return outcome{}, nil
		}
		a.again = true // what follows may have been done before too
		if other.Status.Terminal() || other.Width != nil && other.Status == engine.Running {
			return outcome{item: other}, nil //guard:message/again return outcome{}, nil
		}
		return outcome{}, nil
	}
	defer a.releaseScope()
	w := &attempt{node: r.node, item: item}
	defer func() {
		if out.item != nil && (a.heir == nil || item.Slot != a.heir.slot.String()) {
			a.freeOwn(ctx, w) // it has ended here
		}
	}()
	a.attempt = w
	// A request that hangs must leave time to release the attempt.
	left := w.item.LeaseUntil.Time().Sub(a.Clock.Now()) - 2*Heartbeat
	//guard:prepare/hangs arg 2 100 * Lease
	limited, cancel := context.WithTimeout(ctx, left)
	begin, out, err := a.prepare(limited, w)
	cancel()
	switch {
	case err != nil:
		return a.unable(ctx, w, err)
	case begin == nil:
		return out, nil
	}
	return a.execute(ctx, w, begin)
}

// leased reports whether the item's lease is alive.
func (s *session) leased(n *runstate.Node, now time.Time) bool {
	//guard:lease/of-others drop operand 2.1
	//guard:lease/of-earlier drop operand 2
	if n.Nonce == "" || (s.Exclusive && !strings.HasPrefix(n.Nonce, s.ProcessID+".")) {
		return false
	}
	//guard:lease/ends true
	//guard:lease/lives false
	return n.LeaseUntil.Time().After(now)
}

func millis(t time.Time) clock.Millis { return clock.ToMillis(t) }

func attemptSuffix(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d)", n)
}
