package conductor

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/engine"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// known goes on with a node that was decided before. Only the walk of the
// message it belongs to sees to it; every other has a message of its own.
func (s *session) known(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	if item.Chain != s.chain { //guard:walk/chain drop
		return nil, nil
	}
	if item.Status.Terminal() { //guard:walk/again drop
		return s.finished(ctx, n, item)
	}
	s.ready = append(s.ready, ready{n, max(item.Attempt, 1)}) //guard:walk/again-unfinished drop
	return nil, nil
}

// decide settles what becomes of a task whose dependencies are all finished.
func (s *session) decide(ctx context.Context, n engine.Node, ref engine.Ref, sets engine.Sets) (*done, error) {
	in, err := s.inputs(ctx)
	if err != nil {
		return nil, err
	}
	if in.Reuse != nil && in.Reuse.Has(ref.Task) { //guard:reuse/tasks false
		return s.reuse(ctx, n, ref, in.Reuse.Run)
	}
	status, carried := engine.Running, engine.OutcomeOK
	//guard:decide/one_failed-at-start drop operand 2
	if rule := s.flow.plan.Def(ref.Task).Rule; sets.Count() > 0 || rule == engine.OneFailed {
		status, carried = rule.Decide(sets) //guard:decide/rule call engine.AllDone.Decide
	}
	if status == engine.Running {
		s.ready = append(s.ready, ready{n, 1})
		return nil, nil
	}
	item := &runstate.Node{Status: status, EndedAt: millis(s.Clock.Now()), Chain: s.chain}
	kind, text := runlog.TypeTaskSkipped, "Task %s skipped: its trigger rule %s does not hold"
	if status == engine.UpstreamFailed {
		outcome := int(carried)
		item.Carried = &outcome //guard:decide/carried drop
		item.ErrorType, item.Error = "UpstreamFailedError", "A task it depends on did not succeed."
		kind, text = runlog.TypeTaskFailed, "Task %s not run: a task it depends on did not succeed (trigger rule %s)"
	}
	return s.settleNode(ctx, n, item, kind, text)
}

// settleNode writes the end of a node that never ran.
func (s *session) settleNode(ctx context.Context, n engine.Node, item *runstate.Node, kind, text string) (*done, error) {
	do := []table.Action{
		table.Set(runstate.NodeStatus, string(item.Status)),
		table.Set(runstate.NodeEnded, int64(item.EndedAt)),
		table.Set(runstate.NodeChain, item.Chain),
	}
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
	_, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n), Do: do,
		If: table.Absent(runstate.NodeStatus), //guard:decide/once drop
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		old := &runstate.Node{}
		if err := table.Unmarshal(failed.Old, old); err != nil {
			return nil, err
		}
		return s.known(ctx, n, old)
	}
	if err != nil {
		return nil, fmt.Errorf("settle node %d: %w", n, err)
	}
	s.countTask(item.Status)
	if task, err := s.task(n); err == nil {
		level := "info"
		if item.Status == engine.UpstreamFailed {
			level = "warning"
		}
		s.event(&work{node: n, item: item, task: task}, kind, level, text, task.Name, task.TriggerRule)
	}
	return s.finished(ctx, n, item)
}

// reuse hands on what the source run's task made, without running it.
func (s *session) reuse(ctx context.Context, n engine.Node, ref engine.Ref, source string) (*done, error) {
	src := s.sources[n]
	if src == nil {
		var err error
		if src, err = runstate.LoadNode(ctx, s.Table, s.org, source, n); err != nil {
			return nil, err
		}
	}
	if src == nil {
		return nil, fmt.Errorf("conductor: run %s reuses node %d of run %s, which has none", s.id, n, source)
	}
	item := &runstate.Node{
		Status: engine.Reused, EndedAt: millis(s.Clock.Now()), Chain: s.chain, Attempt: 1,
		//guard:reuse/output field Output "1"
		Output: src.Output, OutputRef: src.OutputRef, OutputSize: src.OutputSize, ListHash: src.ListHash, Width: src.Width,
	}
	if src.Status == engine.Skipped { //guard:reuse/skipped false
		item.Status, item.Error = engine.Skipped, src.Error
		return s.settleNode(ctx, n, item, runlog.TypeTaskSkipped, "Task %s skipped, as in the run that is retried (trigger rule %s)")
	}
	if ref.Kind == engine.KindTask && s.flow.plan.Def(ref.Task).Mapped && s.flow.used[ref.Task] && item.Output == "" && item.OutputRef == "" {
		return nil, fmt.Errorf("conductor: the list of task %d in run %s is not kept", ref.Task, source)
	}
	return s.settleNode(ctx, n, item, runlog.TypeTaskReused, "Task %s reused from the run that is retried (trigger rule %s)")
}
