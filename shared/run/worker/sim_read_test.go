package worker_test

import (
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// item reads a task's item. Tasks are numbered in their order.
func (s *sim) item(org, run string, task int) *runstate.Node {
	item, err := runstate.LoadNode(s.ctx, s.store, org, run, engine.Node(task))
	if err != nil {
		s.tell("%v", err)
	}
	return item
}

func (s *sim) objectOf(key string) string {
	data, _, err := blob.GetBytes(s.ctx, s.blob, key, worker.MaxOutput)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// stored returns the output of a node.
func (s *sim) stored(item *runstate.Node) string {
	switch {
	case item == nil || item.Output == "" && item.OutputRef == "":
		return "null"
	case item.OutputRef != "":
		return s.objectOf(item.OutputRef)
	}
	return item.Output
}

// nodes reads the items of a run by task name, instances as name[i].
func (s *sim) nodes(run *runstate.Run) map[string]*runstate.Node {
	flow, err := registry.LoadFlow(s.ctx, s.store, s.blob, run.Org, run.SpecHash)
	if err != nil {
		s.tell("load flow: %v", err)
		return nil
	}
	plan := engine.NewPlan(engine.Defs(flow))
	items, err := runstate.LoadNodes(s.ctx, s.store, run, plan, false)
	if err != nil {
		s.tell("load nodes: %v", err)
		return nil
	}
	out := map[string]*runstate.Node{}
	for n, item := range items {
		ref, err := plan.Ref(n)
		switch {
		case err != nil:
			s.tell("%v", err)
		case ref.Kind == engine.KindTask:
			out[flow.Tasks[ref.Task].Name] = item
		case ref.Kind == engine.KindInstance:
			out[fmt.Sprintf("%s[%d]", flow.Tasks[ref.Task].Name, ref.Index)] = item
		case ref.Kind == engine.KindOnFailure:
			out[flow.OnFailure.Name] = item
		}
	}
	return out
}
