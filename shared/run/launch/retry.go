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

// RetryResult is a new run and the tasks that it reuses.
type RetryResult struct {
	Run   runstate.Run
	Names []string // of the reused tasks, in the order of the flow
}

// Retry creates a new run of an ended run's flow version with its parameters,
// environment and tier. If partial is set the new run reuses what succeeded; if
// nothing did, or what it needs is gone, all tasks run again. Errors:
// errs.NotFound; errs.Conflict if the run has not ended, or if its flow version
// was registered again with other content; errs.Unprocessable if its
// environment was deleted.
func (l *Launcher) Retry(ctx context.Context, org, id string, partial bool) (RetryResult, error) {
	source, err := l.ended(ctx, org, id)
	if err != nil {
		return RetryResult{}, err
	}
	return l.retry(ctx, &source, partial)
}

// RetryFromFailed is a partial Retry of a run that did not succeed. If version
// is set, which may be LatestVersion, the new run has that version of the flow.
// It reuses the tasks whose definition, and that of all tasks before them, is
// the same there; their code is not compared. Errors: those of Retry;
// errs.Conflict for a run that succeeded; errs.Unprocessable for parameters
// that the version does not accept.
func (l *Launcher) RetryFromFailed(ctx context.Context, org, id, version string) (RetryResult, error) {
	source, err := l.ended(ctx, org, id)
	if err != nil {
		return RetryResult{}, err
	}
	if source.Status == engine.Succeeded { //guard:retry/failed false
		return RetryResult{}, errs.New(errs.Conflict, "Run %s succeeded: there is nothing to retry from; retry it as a whole, or start a new run", id)
	}
	if version == "" {
		return l.retry(ctx, &source, true)
	}
	return l.retryOn(ctx, &source, version)
}

// ended reads the run to retry. Errors: errs.NotFound; errs.Conflict if it has
// not ended.
func (l *Launcher) ended(ctx context.Context, org, id string) (runstate.Run, error) {
	source, err := runstate.GetRun(ctx, l.Table, org, id, l.Clock.Now())
	if err == nil && !source.Status.RunEnded() { //guard:retry/ended false
		err = errs.New(errs.Conflict, "Run %s is %s: only a run that has ended can be retried", id, source.Status)
	}
	return source, err
}

// retry retries a run with its own flow version.
func (l *Launcher) retry(ctx context.Context, source *runstate.Run, partial bool) (RetryResult, error) {
	org, id := source.Org, source.ID
	v, vars, err := registry.GetVersionIn(ctx, l.Table, org, source.Flow, source.Version, source.Environment)
	if err != nil {
		return RetryResult{}, err
	}
	if v.SpecHash != source.SpecHash || v.ArtifactKey != source.Artifact { //guard:retry/same-version false
		return RetryResult{}, errs.New(errs.Conflict, "Flow %s %s was registered anew since run %s", source.Flow, source.Version, id)
	}
	flow, graph, err := registry.LoadPlan(ctx, l.Table, l.Blob, org, source.SpecHash, source.Plan)
	if err != nil {
		return RetryResult{}, fmt.Errorf("load flow: %w", err)
	}
	input, err := runstate.LoadInput(ctx, l.Table, l.Blob, org, id)
	if err != nil {
		return RetryResult{}, err
	}
	p, err := l.retryPlan(ctx, source, v, vars, flow, input)
	if err != nil {
		return RetryResult{}, err
	}
	p.audit.Metadata["from_failed"] = partial
	var names []string
	if partial {
		own := version{flow, graph}
		if names, err = l.reuse(ctx, source, own, own, p); err != nil {
			return RetryResult{}, err
		}
	}
	if p.run.Partial {
		// Results are reused by their node's number in the source.
		p.run.Plan = source.Plan //guard:reuse/plan drop
	}
	run, err := l.write(ctx, p)
	return RetryResult{Run: run, Names: names}, err
}

// retryOn retries a run from failed with a version of its flow, which may be
// another one.
func (l *Launcher) retryOn(ctx context.Context, source *runstate.Run, name string) (RetryResult, error) {
	org := source.Org
	if name == LatestVersion {
		head, err := registry.GetFlow(ctx, l.Table, org, source.Flow)
		if err != nil {
			return RetryResult{}, err
		}
		name = head.LatestVersion
	}
	v, vars, err := registry.GetVersionIn(ctx, l.Table, org, source.Flow, name, source.Environment)
	if err != nil {
		return RetryResult{}, err
	}
	var before, after version
	if before.flow, before.graph, err = registry.LoadPlan(ctx, l.Table, l.Blob, org, source.SpecHash, source.Plan); err != nil {
		return RetryResult{}, fmt.Errorf("load flow: %w", err)
	}
	if after.flow, after.graph, err = registry.LoadPlan(ctx, l.Table, l.Blob, org, v.SpecHash, engine.PlanVersion); err != nil {
		return RetryResult{}, fmt.Errorf("load flow: %w", err)
	}
	input, err := runstate.LoadInput(ctx, l.Table, l.Blob, org, source.ID)
	if err != nil {
		return RetryResult{}, err
	}
	params, err := checked(ctx, after.flow, input.Parameters, registry.Injected)
	if err != nil {
		return RetryResult{}, err
	}
	p, err := l.retryPlan(ctx, source, v, vars, after.flow, input)
	if err != nil {
		return RetryResult{}, err
	}
	p.input.Parameters = params
	p.audit.Metadata["from_failed"], p.audit.Metadata["flow_version"] = true, v.FlowVersion
	names, err := l.reuse(ctx, source, before, after, p)
	if err != nil {
		return RetryResult{}, err
	}
	run, err := l.write(ctx, p)
	return RetryResult{Run: run, Names: names}, err
}

// LatestVersion is the name of a flow's newest version.
const LatestVersion = "latest"

// retryPlan returns the plan of a retry that reuses nothing.
func (l *Launcher) retryPlan(
	ctx context.Context, source *runstate.Run, v registry.Version, vars *registry.VariableSet, flow *flowspec.Flow, input *runstate.Input,
) (*plan, error) {
	env, err := l.registry().RunEnvironment(ctx, source.Org, source.Environment, vars)
	if err != nil {
		return nil, err
	}
	p := &plan{
		run:   l.record(ctx, source.Org, v, source.Environment, source.Mode, Retry),
		input: runstate.Input{Parameters: input.Parameters, LogicalDate: input.LogicalDate, Vars: env.Vars},
		env:   env,
		audit: audit.Change{Action: "retry", Metadata: map[string]any{"parent_run_id": source.ID}},
	}
	p.run.Deployment, p.run.Timeout, p.run.Parent, p.run.ModeGiven = source.Deployment, flow.TimeoutSecs, source.ID, source.ModeGiven
	return p, nil
}

// version is a version of a flow with its plan.
type version struct {
	flow  *flowspec.Flow
	graph *engine.Plan
}

// place returns the place of a task's nodes.
func (v *version) place(task int) runstate.Place {
	at := runstate.Place{Task: engine.Node(task)}
	if v.graph.Def(task).Mapped {
		at.First = v.graph.Instance(task, 0)
	}
	return at
}

// unchanged returns, for each task of v, the index of the same task in before;
// -1 if it is not the same.
func (v *version) unchanged(before *version) ([]int, error) {
	if v.flow != before.flow {
		return v.flow.Unchanged(before.flow)
	}
	same := make([]int, len(v.flow.Tasks))
	for i := range same {
		same[i] = i
	}
	return same, nil
}

// reuse plans what the new run, with the version after, takes from the source,
// with the version before.
func (l *Launcher) reuse(ctx context.Context, source *runstate.Run, before, after version, p *plan) ([]string, error) {
	same, err := after.unchanged(&before)
	if err != nil {
		return nil, err
	}
	statuses, widths := map[engine.Node]engine.Status{}, map[engine.Node]int{}
	for item, err := range runstate.Nodes(ctx, l.Table, source, before.graph, false, runstate.Only(runstate.NodeStatus, runstate.NodeWidth)) {
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
	reused := after.graph.Reuse(after.flow.Order(), engine.Source{
		Task: func(task int) engine.Status {
			was := same[task]
			// The list of a map is not stored if nothing reads it.
			if was < 0 || after.graph.Def(task).Mapped && after.flow.Used()[task] && !before.flow.Used()[was] {
				return engine.Pending
			}
			return status(engine.Node(was))
		},
		Instance: func(task, index int) engine.Status { return status(before.graph.Instance(same[task], index)) },
		Width: func(task int) (int, bool) {
			width, evaluated := widths[engine.Node(same[task])]
			return width, evaluated && same[task] >= 0
		},
	})
	if len(reused.Reused) == 0 && len(reused.Instances) == 0 {
		return nil, nil
	}
	slices.Sort(reused.Tasks)
	slices.Sort(reused.Reused)
	names := make([]string, len(reused.Reused))
	for i, t := range reused.Reused {
		names[i] = after.flow.Tasks[t].Name
	}
	instances := map[string][]int{}
	count := len(names)
	for task, list := range reused.Instances {
		instances[strconv.Itoa(task)] = list
		count += len(list)
	}
	p.input.Reuse = &runstate.Reuse{Run: source.ID, Tasks: reused.Tasks, Instances: instances, Names: names}
	for task, was := range same {
		if was < 0 || before.place(was) == after.place(task) {
			continue
		}
		if p.input.Reuse.Places == nil {
			p.input.Reuse.Places = map[string]runstate.Place{}
		}
		p.input.Reuse.Places[strconv.Itoa(task)] = before.place(was)
	}
	p.run.Partial, p.run.Reused = true, count
	return names, nil
}
