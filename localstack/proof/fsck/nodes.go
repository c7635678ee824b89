package fsck

import (
	"context"
	"fmt"
	"slices"

	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runstate"
)

// subject is one run under check.
type subject struct {
	*Snapshot
	*Run
}

func (c subject) tell(format string, args ...any) {
	c.Snapshot.tell("run %s (%s %s): %s", c.ID, c.Run.Run.Flow, c.Status, fmt.Sprintf(format, args...))
}

// nodes checks the items of a run's tasks, instances and joins.
func (c subject) nodes(ctx context.Context) {
	for n, item := range c.Nodes {
		ref, err := c.Plan.Ref(n)
		if err != nil {
			c.tell("%v", err)
			continue
		}
		if (ref.Kind == engine.KindInstance || ref.Kind == engine.KindJoin) && ref.Task >= 0 && !c.within(n, ref) {
			c.tell("node %d stands outside its map", n)
			continue
		}
		c.sets(n, item)
		switch ref.Kind {
		case engine.KindTask, engine.KindInstance, engine.KindOnFailure:
			c.attempts(n, ref, item)
			c.rule(n, ref, item)
			c.outputs(ctx, n, item)
		default:
			if item.Status != "" || item.Nonce != "" {
				c.tell("node %d is a join and has the status %s", n, item.Status)
			}
		}
	}
}

// within reports whether a map's instance or join is within its width.
func (c subject) within(n engine.Node, ref engine.Ref) bool {
	parent := c.Nodes[engine.Node(ref.Task)]
	if parent == nil || parent.Width == nil {
		return false
	}
	first, end, firstJoin, endJoin := c.Plan.MapNodes(ref.Task, *parent.Width)
	return n >= first && n < end || n >= firstJoin && n < endJoin
}

// task returns the definition of the task that a node runs.
func (c subject) task(ref engine.Ref) *flowspec.Task {
	if ref.Kind == engine.KindOnFailure {
		return c.Run.Flow.OnFailure
	}
	return &c.Run.Flow.Tasks[ref.Task]
}

// attempts checks that each attempt but the last is in the history, in order;
// that a lease belongs to a running attempt; and that there are no more
// attempts than retries and lost workers account for.
func (c subject) attempts(n engine.Node, ref engine.Ref, item *runstate.Node) {
	task := c.task(ref)
	if task == nil {
		c.tell("node %d runs no task", n)
		return
	}
	what := fmt.Sprintf("node %d (%s)", n, task.Name)
	if item.LeaseUntil != 0 && (item.Status != engine.Running || item.Nonce == "") {
		c.tell("%s is %s and keeps a lease", what, item.Status)
	}
	if item.Attempt == 0 || item.Status == engine.Reused {
		return
	}
	if len(item.History) != item.Attempt-1 {
		c.tell("%s is at attempt %d and has a history of %d", what, item.Attempt, len(item.History))
	}
	for i, a := range item.History {
		if a.Attempt != i+1 || !a.Status.Terminal() || a.EndedAt == 0 {
			c.tell("%s has the history %+v", what, item.History)
			break
		}
	}
	if tries := item.Attempt - item.Lost; tries > task.Retries+1 {
		c.tell("%s was tried %d times, with %d retries", what, tries, task.Retries)
	}
	if item.Status.Terminal() && item.EndedAt == 0 {
		c.tell("%s is %s and has no end", what, item.Status)
	}
}

// sets checks that the recorded outcomes of a node's dependencies are right.
func (c subject) sets(n engine.Node, item *runstate.Node) {
	for outcome, set := range map[engine.Outcome][]int{
		engine.OutcomeOK: item.OK, engine.OutcomeSkipped: item.Skipped,
		engine.OutcomeTimedOut: item.TimedOut, engine.OutcomeFailed: item.Failed,
	} {
		for _, m := range set {
			dep := engine.Node(m)
			if got, done := c.outcome(dep); !done || got != outcome {
				c.tell("node %d was told the outcome %d of node %d, which has %d (finished: %t)", n, outcome, dep, got, done)
			}
			if !slices.ContainsFunc(c.Plan.Targets(dep, c.width(dep)), func(t engine.Target) bool { return t.Node == n }) {
				c.tell("node %d was told of node %d, which does not lead to it", n, dep)
			}
		}
	}
	if got := item.Sets().Count(); got > 0 {
		seen := map[int]bool{}
		for _, set := range [][]int{item.OK, item.Skipped, item.TimedOut, item.Failed} {
			for _, m := range set {
				seen[m] = true
			}
		}
		if len(seen) != got {
			c.tell("node %d was told two outcomes of one node: %+v", n, item.Sets())
		}
	}
}

// width returns the width of the map that a node belongs to, 0 for others.
func (c subject) width(n engine.Node) int {
	ref, err := c.Plan.Ref(n)
	if err != nil || ref.Task < 0 || ref.Kind == engine.KindTask {
		return 0
	}
	if parent := c.Nodes[engine.Node(ref.Task)]; parent != nil && parent.Width != nil {
		return *parent.Width
	}
	return 0
}

// outcome returns the outcome that a node passes on; false if it is not
// finished. A join without an item has one child, whose outcome it passes on;
// that is not followed here.
func (c subject) outcome(n engine.Node) (engine.Outcome, bool) {
	item := c.Nodes[n]
	ref, err := c.Plan.Ref(n)
	if err != nil {
		return 0, false
	}
	if ref.Kind != engine.KindJoin {
		if item == nil || !item.Status.Terminal() {
			return 0, false
		}
		return item.Outcome(), true
	}
	need := c.Plan.JoinNeed(n, c.width(n))
	if item == nil && need == 1 {
		for m := range c.Nodes {
			for _, t := range c.Plan.Targets(m, c.width(m)) {
				if t.Node == n {
					return c.outcome(m)
				}
			}
		}
	}
	if item == nil {
		return 0, false
	}
	return item.Sets().Worst(), item.Sets().Count() >= need
}

// rule checks that a task's status follows from its trigger rule and
// dependencies.
func (c subject) rule(n engine.Node, ref engine.Ref, item *runstate.Node) {
	if ref.Kind != engine.KindTask || item.Status == "" || item.Status == engine.Cancelled || item.Status == engine.Reused {
		return
	}
	task := c.task(ref)
	def := c.Plan.Def(ref.Task)
	var sets engine.Sets
	for _, d := range def.Deps {
		outcome, done := c.outcome(engine.Node(d))
		if !done {
			c.tell("%s is %s before %s is finished", task.Name, item.Status, c.Run.Flow.Tasks[d].Name)
			return
		}
		sets.Add(outcome)
	}
	want, carried := engine.Running, engine.OutcomeOK
	if sets.Count() > 0 || def.Rule == engine.OneFailed {
		want, carried = def.Rule.Decide(sets)
	}
	switch {
	case item.Status == engine.UpstreamFailed:
		if want != engine.UpstreamFailed || item.Outcome() != carried {
			c.tell("%s is UPSTREAM_FAILED (%d), its rule %s says %s (%d) of %+v", task.Name, item.Outcome(), def.Rule, want, carried, sets)
		}
	case item.Status == engine.Skipped:
		if want != engine.Skipped && task.Condition == "" {
			c.tell("%s is SKIPPED, its rule %s says %s of %+v", task.Name, def.Rule, want, sets)
		}
	case want != engine.Running:
		c.tell("%s is %s, its rule %s says %s of %+v", task.Name, item.Status, def.Rule, want, sets)
	}
}

// outputs checks that the objects named by an item exist.
func (c subject) outputs(ctx context.Context, n engine.Node, item *runstate.Node) {
	if c.objects == nil {
		return
	}
	for ref, size := range map[string]int64{item.OutputRef: item.OutputSize, item.ListRef: 0} {
		if ref == "" {
			continue
		}
		object, err := c.objects.Head(ctx, ref)
		if err != nil {
			c.tell("node %d names the object %s: %v", n, ref, err)
		} else if size != 0 && object.Size != size {
			c.tell("node %d names the object %s of %d bytes, which has %d", n, ref, size, object.Size)
		}
	}
}
