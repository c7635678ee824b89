package conductor

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// collect ends a mapped task whose instances are all finished.
func (s *session) collect(ctx context.Context, n engine.Node, last done) (*done, error) {
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	status := engine.MapStatus(last.outcome) //guard:map/worst arg 1 engine.OutcomeOK
	do := []table.Action{
		table.Set(runstate.NodeStatus, string(status)),
		table.Set(runstate.NodeEnded, int64(millis(s.Clock.Now()))),
	}
	kind, reason := executor.TaskFailed, fmt.Sprintf("not all of its %d instances succeeded", last.width)
	if s.flow.used[ref.Task] {
		out, err := s.gather(ctx, ref.Task, last.width)
		var large tooLarge
		switch {
		case errors.As(err, &large):
			status, kind, reason = engine.Failed, executor.Serialization, large.Error()
			do[0] = table.Set(runstate.NodeStatus, string(status))
		case err != nil:
			return nil, err
		}
		do = append(do, out...)
	}
	text := fmt.Sprintf("Task %s: all instances are finished; %s", s.flow.Tasks[ref.Task].Name, reason)
	if status != engine.Succeeded {
		do = append(do, table.Set(runstate.NodeErrorType, kind), table.Set(runstate.NodeError, reason))
	}
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n), Do: do,
		If: table.And(
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:map/ends-once drop
			table.Exists(runstate.NodeWidth),                      //guard:map/width-exists drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		//guard:map/again return nil, nil
		stored = failed.Old // ended before, by another walk from the last join
	} else if err != nil {
		return nil, fmt.Errorf("end map %d: %w", n, err)
	} else if status == engine.Succeeded {
		s.mapEvent(ref.Task, runlog.TypeTaskSucceeded, "info", fmt.Sprintf("Task %s: all %d instances succeeded", s.flow.Tasks[ref.Task].Name, last.width))
	} else {
		s.mapEvent(ref.Task, runlog.TypeTaskFailed, "error", text)
	}
	if err == nil {
		s.countTask(status)
	}
	item := &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return nil, err
	}
	if !item.Status.Terminal() {
		return nil, nil // stopped meanwhile
	}
	return s.finished(ctx, n, item)
}

// gather makes the list of the instances' outputs, in order, null where one did
// not succeed.
func (s *session) gather(ctx context.Context, task, width int) ([]table.Action, error) {
	first, end, _, _ := s.flow.plan.MapNodes(task, width)
	var list blob.Spool
	defer func() { _ = list.Close() }()
	if err := writeOutputs(ctx, s.Table, s.Blob, s.org, s.id, runstate.Span{From: first, To: end}, &list); err != nil {
		return nil, fmt.Errorf("list the outputs of map %d: %w", task, err)
	}
	if list.Size() > runstate.MaxInline {
		body, err := list.Reader()
		if err != nil {
			return nil, err
		}
		key := runstate.Object(s.org, s.id, fmt.Sprintf("out/%d-list.json", task))
		if _, err := s.Blob.Put(ctx, key, body, list.Size(), blob.PutOptions{ContentType: "application/json"}); err != nil {
			return nil, fmt.Errorf("store outputs of map: %w", err)
		}
		return refActions(executor.Value{Ref: key, Size: list.Size()}), nil
	}
	raw, err := list.Bytes()
	if err != nil {
		return nil, err
	}
	do, _, err := s.keepOutput(ctx, engine.Node(task), 1, executor.Value{JSON: raw})
	return do, err
}
