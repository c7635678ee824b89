package usage

import (
	"context"
	"fmt"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/tier"
)

// runs reads the runs of a list, consistently.
func (m Meter) runs(ctx context.Context, listed []table.Item) ([]runstate.Run, error) {
	keys := make([]table.Key, len(listed))
	for i, item := range listed {
		keys[i] = item.Key()
	}
	return m.load(ctx, keys)
}

// open reads runs by their ids, consistently.
func (m Meter) open(ctx context.Context, org string, open []string) ([]runstate.Run, error) {
	keys := make([]table.Key, len(open))
	for i, id := range open {
		keys[i] = runstate.RunKey(org, id)
	}
	return m.load(ctx, keys)
}

func (m Meter) load(ctx context.Context, keys []table.Key) ([]runstate.Run, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	items, err := m.Table.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return nil, err
	}
	return table.Decode[runstate.Run](items)
}

// attempts calls book for each attempt of the run's Python tasks that has ended,
// with its compute in MB milliseconds.
func (m Meter) attempts(ctx context.Context, run *runstate.Run, book func(ended time.Time, compute int64)) error {
	if run.StartedAt == 0 {
		return nil
	}
	flow, plan, err := registry.LoadPlan(ctx, m.Table, m.Blob, run.Org, run.SpecHash, run.Plan)
	if err != nil {
		return fmt.Errorf("load flow of run %s: %w", run.ID, err)
	}
	if !hasCode(flow) {
		return nil
	}
	only := runstate.Only(runstate.NodeStatus, runstate.NodeStarted, runstate.NodeEnded, runstate.NodeHistory)
	for node, err := range runstate.Nodes(ctx, m.Table, run, plan, false, only) {
		if err != nil {
			return err
		}
		task, err := taskOf(flow, plan, node)
		if err != nil {
			return err
		}
		if task == nil || task.Entrypoint == "" || node.Width != nil || node.Status == engine.Reused {
			continue
		}
		memory := int64(tier.Tier(run.TierOf(task.Tier)).MemoryMB())
		one := func(from, to clock.Millis) {
			if from != 0 && to > from {
				book(to.Time(), memory*int64(to-from))
			}
		}
		for _, h := range node.History {
			one(h.StartedAt, h.EndedAt)
		}
		one(node.StartedAt, node.EndedAt)
	}
	return nil
}

// hasCode reports whether a task of the flow runs Python code.
func hasCode(flow *flowspec.Flow) bool {
	if flow.OnFailure != nil && flow.OnFailure.Entrypoint != "" {
		return true
	}
	for i := range flow.Tasks {
		if flow.Tasks[i].Entrypoint != "" {
			return true
		}
	}
	return false
}

// taskOf returns the task that a node is of, nil for the end of the run.
func taskOf(flow *flowspec.Flow, plan *engine.Plan, node *runstate.Node) (*flowspec.Task, error) {
	ref, err := plan.Ref(node.Number())
	switch {
	case err != nil:
		return nil, err
	case ref.Kind == engine.KindOnFailure:
		return flow.OnFailure, nil
	case ref.Kind == engine.KindTask, ref.Kind == engine.KindInstance:
		return &flow.Tasks[ref.Task], nil
	}
	return nil, nil
}
