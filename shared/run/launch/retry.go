package launch

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"millrace/shared/account/audit"
	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// Retried is a retry, and what it takes over.
type Retried struct {
	Run   runstate.Run
	Names []string // tasks reused, in the order of the flow
}

// Retry makes a new run of an ended run's flow version with its parameters,
// environment and tier. With partial set it reuses what succeeded; if nothing
// did, or what it needs is gone, it is a full retry. Errors: errs.NotFound,
// errs.Conflict while the run has not ended or if its flow version was
// registered anew with other content.
func (l *Launcher) Retry(ctx context.Context, org, id string, partial bool) (Retried, error) {
	source, err := runstate.GetRun(ctx, l.Table, org, id)
	if err != nil {
		return Retried{}, err
	}
	if !source.Status.RunEnded() { //guard:retry/ended false
		return Retried{}, errs.New(errs.Conflict, "Run %s is %s: only a run that has ended can be retried", id, source.Status)
	}
	v, err := registry.GetVersion(ctx, l.Table, org, source.Flow, source.Version)
	if err != nil {
		return Retried{}, err
	}
	if v.SpecHash != source.SpecHash || v.ArtifactKey != source.Artifact { //guard:retry/same-version false
		return Retried{}, errs.New(errs.Conflict, "Flow %s %s was registered anew since run %s", source.Flow, source.Version, id)
	}
	flow, graph, err := registry.LoadPlan(ctx, l.Table, l.Blob, org, source.SpecHash, source.Plan)
	if err != nil {
		return Retried{}, fmt.Errorf("load flow: %w", err)
	}
	input, err := runstate.LoadInput(ctx, l.Table, l.Blob, org, id)
	if err != nil {
		return Retried{}, err
	}
	p := &plan{
		run:   l.record(ctx, org, v, source.Environment, source.Mode, Retry),
		input: runstate.Input{Parameters: input.Parameters, LogicalDate: input.LogicalDate},
		audit: audit.Change{Action: "retry", Metadata: map[string]any{"parent_run_id": id, "from_failed": partial}},
	}
	p.run.Deployment, p.run.Timeout, p.run.Parent = source.Deployment, flow.TimeoutSecs, id
	var names []string
	if partial {
		if names, err = l.reuse(ctx, &source, flow, graph, p); err != nil {
			return Retried{}, err
		}
	}
	run, err := l.write(ctx, p)
	return Retried{Run: run, Names: names}, err
}

// reuse plans what the new run takes from the source.
func (l *Launcher) reuse(ctx context.Context, source *runstate.Run, flow *flowspec.Flow, graph *engine.Plan, p *plan) ([]string, error) {
	statuses, widths := map[engine.Node]engine.Status{}, map[engine.Node]int{}
	for item, err := range runstate.Nodes(ctx, l.Table, source, graph, false, runstate.Only(runstate.NodeStatus, runstate.NodeWidth)) {
		if err != nil {
			return nil, err
		}
		statuses[item.Number()] = item.Status
		if item.Width != nil {
			widths[item.Number()] = *item.Width
		}
	}
	status := func(n engine.Node) engine.Status {
		if st := statuses[n]; st != "" {
			return st
		}
		return engine.Pending
	}
	reused := graph.Reuse(flow.Order(), engine.Source{
		Task:     func(task int) engine.Status { return status(engine.Node(task)) },
		Instance: func(task, index int) engine.Status { return status(graph.Instance(task, index)) },
		Width: func(task int) (int, bool) {
			width, evaluated := widths[engine.Node(task)]
			return width, evaluated
		},
	})
	if len(reused.Reused) == 0 && len(reused.Instances) == 0 {
		return nil, nil
	}
	slices.Sort(reused.Tasks)
	slices.Sort(reused.Reused)
	names := make([]string, len(reused.Reused))
	for i, t := range reused.Reused {
		names[i] = flow.Tasks[t].Name
	}
	instances := map[string][]int{}
	count := len(names)
	for task, list := range reused.Instances {
		instances[strconv.Itoa(task)] = list
		count += len(list)
	}
	p.input.Reuse = &runstate.Reuse{Run: source.ID, Tasks: reused.Tasks, Instances: instances, Names: names}
	p.run.Partial, p.run.Reused = true, count
	// What is reused is found by its number in the source.
	p.run.Plan = source.Plan //guard:reuse/plan drop
	return names, nil
}
