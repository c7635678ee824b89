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
	item   *runstate.Node // as it was claimed
	task   *flowspec.Task
	parent *runstate.Node // the mapped task's item, of an instance
	lines  atomic.Int64   // log lines so far
	id     string         // see attemptID
	told   bool           // its log says how it ended
	// announced: its log says that it began.
	announced bool
	// begun is when its own code began, in milliseconds; 0 before, and of a task
	// type that does not tell.
	begun atomic.Int64
}

// outcome is what came of an attempt that was to be made.
type outcome struct {
	// item is the node as it stands, if something is to follow from it: it is
	// finished, or a map whose list is evaluated.
	item *runstate.Node
	// stopped tells why the run was stopped, if it was; then the attempt is
	// claimed and to be cancelled.
	stopped string
}

// attempts makes the attempts of tasks: it claims them, keeps their leases while
// they execute, and completes them.
type attempts struct {
	values
	place *place // that the next attempt has, if its task type needs one
}

// leaseLost is what a lease is when another owns the attempt, or may.
const leaseLost = "lost"

// try claims a node and makes the attempt. own says that the message is about
// this very node; another node's own message sees to it if it cannot be claimed.
func (a *attempts) try(ctx context.Context, r ready, own bool) (outcome, error) {
	item, other, err := a.claim(ctx, r)
	if err != nil {
		return outcome{}, err
	}
	if item == nil {
		if !own && other.Chain != a.chain { //guard:inline/again drop operand 2
			return outcome{}, nil
		}
		a.again = true // whatever follows may have been done too
		if other.Status.Terminal() || other.Width != nil && other.Status == engine.Running {
			return outcome{item: other}, nil //guard:message/again return outcome{}, nil
		}
		return outcome{}, nil
	}
	defer a.releaseScope()
	w := &attempt{node: r.node, item: item}
	a.attempt = w
	// What hangs must leave time to give the attempt back.
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

// leased reports whether the item's lease lives.
func (s *session) leased(n *runstate.Node, now time.Time) bool {
	//guard:lease/of-others drop operand 2.1
	//guard:lease/of-earlier drop operand 2
	if n.Nonce == "" || (s.Sole && !strings.HasPrefix(n.Nonce, s.Boot+".")) {
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
