package worker

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// collect ends a mapped task whose instances are all finished. item is the
// map's own item if it was read, because this may have been done before.
func (g *graph) collect(ctx context.Context, n engine.Node, last done, item *runstate.Node) (*done, error) {
	if item != nil && item.Status.Terminal() { //guard:map/collected drop
		return g.doneOf(ctx, n, item)
	}
	ref, err := g.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	status := engine.MapStatus(last.outcome) //guard:map/worst arg 1 engine.OutcomeOK
	do := []table.Action{
		table.Set(runstate.NodeStatus, string(status)),
		table.Set(runstate.NodeEnded, int64(millis(g.Clock.Now()))),
	}
	do = append(do, runstate.UnlistItems()...) //guard:limit/unlisted drop
	kind, reason := executor.TaskFailed, fmt.Sprintf("not all of its %d instances succeeded", last.width)
	if g.flow.used()[ref.Task] {
		out, err := g.gather(ctx, ref.Task, last.width)
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
	text := fmt.Sprintf("Task %s: all instances are finished; %s", g.flow.Tasks[ref.Task].Name, reason)
	if status != engine.Succeeded {
		do = append(do, table.Set(runstate.NodeErrorType, kind), table.Set(runstate.NodeError, reason))
	}
	stored, err := g.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(g.org, g.id, n), Do: do,
		If: table.And(
			from(engine.Collect, status),     //guard:map/ends-once drop
			table.Exists(runstate.NodeWidth), //guard:map/width-exists drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		//guard:map/again return nil, nil
		stored = failed.Old // ended before by another message from the last join
	} else if err != nil {
		return nil, fmt.Errorf("end map %d: %w", n, err)
	} else if status == engine.Succeeded {
		g.mapEvent(g.flow.Tasks[ref.Task].Name, runlog.TypeTaskSucceeded, "info", fmt.Sprintf("Task %s: all %d instances succeeded", g.flow.Tasks[ref.Task].Name, last.width))
	} else {
		g.mapEvent(g.flow.Tasks[ref.Task].Name, runlog.TypeTaskFailed, "error", text)
	}
	if err == nil {
		g.countTask(status)
	}
	item = &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return nil, err
	}
	if !item.Status.Terminal() {
		return nil, nil // stopped meanwhile
	}
	return g.doneOf(ctx, n, item)
}

// gather stores the list of the instances' outputs, in order, null for those
// that did not succeed.
func (g *graph) gather(ctx context.Context, task, width int) ([]table.Action, error) {
	first, end, _, _ := g.flow.plan.MapNodes(task, width)
	var list blob.Spool
	defer func() { _ = list.Close() }()
	if err := WriteOutputs(ctx, g.Table, g.Blob, g.org, g.id, runstate.Span{From: first, To: end}, &list); err != nil {
		return nil, fmt.Errorf("list the outputs of map %d: %w", task, err)
	}
	if list.Size() > runstate.MaxInline {
		body, err := list.Reader()
		if err != nil {
			return nil, err
		}
		key := runstate.Object(g.org, g.id, fmt.Sprintf("out/%d-list.json", task))
		if _, err := g.Blob.Put(ctx, key, body, list.Size(), blob.PutOptions{ContentType: "application/json"}); err != nil {
			return nil, fmt.Errorf("store outputs of map: %w", err)
		}
		return refActions(executor.Value{Ref: key, Size: list.Size()}), nil
	}
	raw, err := list.Bytes()
	if err != nil {
		return nil, err
	}
	do, _, err := values{g.session}.keepOutput(ctx, engine.Node(task), 1, executor.Value{JSON: raw})
	return do, err
}
