package worker

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// known continues from a node that was decided before, if the message is the
// one that decided it. All other nodes have a message of their own.
func (g *graph) known(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	if item.Chain != g.chain { //guard:propagate/chain drop
		return nil, nil
	}
	if item.Status.Terminal() { //guard:propagate/again drop
		return g.doneOf(ctx, n, item)
	}
	g.ready = append(g.ready, ready{n, max(item.Attempt, 1), item.Due}) //guard:propagate/again-unfinished drop
	return nil, nil
}

// decide decides a task whose dependencies are all finished. A task that is to
// run is added to ready; any other is finished by the decision and returned.
func (g *graph) decide(ctx context.Context, n engine.Node, sets engine.Sets) (*done, error) {
	reused, err := g.reused(ctx)
	if err != nil {
		return nil, err
	}
	if reused != nil && reused.Has(int(n)) { //guard:reuse/tasks false
		return g.reuse(ctx, n, reused)
	}
	status, carried := engine.Running, engine.OutcomeOK
	//guard:decide/one_failed-at-start drop operand 2
	if rule := g.flow.plan.Def(int(n)).Rule; sets.Count() > 0 || rule == engine.OneFailed {
		status, carried = rule.Decide(sets) //guard:decide/rule call engine.AllDone.Decide
	}
	if status == engine.Running {
		g.ready = append(g.ready, ready{node: n, attempt: 1})
		return nil, nil
	}
	item := &runstate.Node{Status: status, EndedAt: millis(g.Clock.Now()), Chain: g.chain}
	kind, text := runlog.TypeTaskSkipped, "Task %s skipped: its trigger rule %s does not hold"
	if status == engine.UpstreamFailed {
		outcome := int(carried)
		item.Carried = &outcome //guard:decide/carried drop
		item.ErrorType, item.Error = executor.Upstream, "A task it depends on did not succeed."
		kind, text = runlog.TypeTaskFailed, "Task %s not run: a task it depends on did not succeed (trigger rule %s)"
	}
	return g.pass(ctx, n, item, kind, text)
}

// pass writes the end of a node that does not run.
func (g *graph) pass(ctx context.Context, n engine.Node, item *runstate.Node, kind, text string) (*done, error) {
	do := append(runstate.Keep(g.Quota, g.org, g.Clock.Now()),
		table.Set(runstate.NodeStatus, string(item.Status)),
		table.Set(runstate.NodeEnded, int64(item.EndedAt)),
		table.Set(runstate.NodeChain, item.Chain),
	)
	set := func(attr string, v any, there bool) {
		if there {
			do = append(do, table.Set(attr, v))
		}
	}
	set(runstate.NodeAttempt, item.Attempt, item.Attempt > 0)
	set(runstate.NodeStarted, int64(item.StartedAt), item.StartedAt != 0)
	set(runstate.NodeErrorType, item.ErrorType, item.ErrorType != "")
	set(runstate.NodeError, item.Error, item.Error != "")
	set(runstate.NodeOutput, item.Output, item.Output != "")
	set(runstate.NodeOutputRef, item.OutputRef, item.OutputRef != "")
	set(runstate.NodeOutSize, item.OutputSize, item.OutputSize != 0)
	set(runstate.NodeListHash, item.ListHash, item.ListHash != "")
	if item.Width != nil {
		do = append(do, table.Set(runstate.NodeWidth, *item.Width))
	}
	if item.Carried != nil {
		do = append(do, table.Set(runstate.NodeCarried, *item.Carried))
	}
	_, err := g.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(g.org, g.id, n), Do: do,
		If: table.Absent(runstate.NodeStatus), //guard:decide/once drop
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		old := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, old); err != nil {
			return nil, err
		}
		return g.known(ctx, n, old)
	}
	if err != nil {
		return nil, fmt.Errorf("end node %d: %w", n, err)
	}
	g.countTask(item.Status)
	if w := g.subjectOf(n, item); w.task != nil {
		level := "info"
		switch item.Status {
		case engine.UpstreamFailed:
			level = "warning"
		case engine.Failed:
			level = "error"
		}
		g.event(w, kind, level, text, w.task.Name, w.task.TriggerRule)
	}
	return g.doneOf(ctx, n, item)
}

// reuse finishes a node with the result of the source run's node, without
// running it.
func (g *graph) reuse(ctx context.Context, n engine.Node, from *runstate.Reuse) (*done, error) {
	source := from.Run
	src := g.sources[n]
	if src == nil && int(n) < g.flow.plan.Len() { // those of instances are read ahead
		var err error
		if src, err = runstate.LoadNode(ctx, g.Table, g.org, source, from.Place(runstate.Place{Task: n}).Task); err != nil {
			return nil, err
		}
	}
	if src == nil { //guard:reuse/expired false
		return g.gone(ctx, n, source)
	}
	item := &runstate.Node{
		Status: engine.Reused, EndedAt: millis(g.Clock.Now()), Chain: g.chain, Attempt: 1,
		//guard:reuse/output field Output "1"
		Output: src.Output, OutputRef: src.OutputRef, OutputSize: src.OutputSize, ListHash: src.ListHash, Width: src.Width,
	}
	if src.Status == engine.Skipped { //guard:reuse/skipped false
		item.Status, item.Error = engine.Skipped, src.Error
		return g.pass(ctx, n, item, runlog.TypeTaskSkipped, "Task %s skipped, as in the run that is retried (trigger rule %s)")
	}
	if t := int(n); t < g.flow.plan.Len() && g.flow.plan.Def(t).Mapped && g.flow.used()[t] && item.Output == "" && item.OutputRef == "" {
		return g.gone(ctx, n, source)
	}
	return g.pass(ctx, n, item, runlog.TypeTaskReused, "Task %s reused from the run that is retried (trigger rule %s)")
}

// gone fails a node whose result in the source run has expired since the retry
// was accepted. It does not run instead: whoever asked for the retry was told
// that it would not. A retry of this run runs it, because it failed here.
func (g *graph) gone(ctx context.Context, n engine.Node, source string) (*done, error) {
	return g.pass(ctx, n, &runstate.Node{
		Status: engine.Failed, EndedAt: millis(g.Clock.Now()), Chain: g.chain, ErrorType: executor.StorageFailed,
		Error: fmt.Sprintf("What it was to reuse of run %s has expired. A retry of this run runs it.", source),
	}, runlog.TypeTaskFailed, "Task %s not run: what it was to reuse of the run that is retried has expired (trigger rule %s)")
}
