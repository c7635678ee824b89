package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// get returns a run with its task attempts. Errors: errs.NotFound.
func (s *service) get(ctx context.Context, in *runPath) (*RunDetail, error) {
	// The record is read before the tasks: if the run has ended, they are final.
	run, err := s.load(ctx, in.RunID)
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, run)
}

// detail returns the detail of a run whose record was read before.
func (s *service) detail(ctx context.Context, run *runstate.Run) (*RunDetail, error) {
	input, err := runstate.LoadInput(ctx, s.table, s.blob, run.Org, run.ID)
	if err != nil {
		return nil, err
	}
	flow, plan, err := registry.LoadPlan(ctx, s.table, s.blob, run.Org, run.SpecHash, run.Plan)
	if err != nil {
		return nil, fmt.Errorf("load flow %s %s: %w", run.Flow, run.Version, err)
	}
	r := &reader{
		s: s, run: run, input: input, flow: flow, plan: plan,
		outputs: outputs{store: s.blob, run: run, left: inlineOutputs},
		text:    inlineText, queued: s.whyQueued(run),
	}
	out := &RunDetail{RunRecord: record(run), LogicalDate: input.LogicalDate, Parameters: input.Parameters}
	if err := s.showResult(ctx, flow, r, out); err != nil {
		return nil, err
	}
	tasks, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.outputs.flush(ctx); err != nil {
		return nil, err
	}
	r.outputs.fetch(ctx, s.log, tasks)
	out.TaskRuns = tasks
	if out.Parameters == nil {
		out.Parameters = map[string]json.RawMessage{}
	}
	if run.Status == engine.Queued {
		out.Reason = s.waits(run, "")
	}
	if run.Parent != "" {
		out.Partial, out.ReusedTaskCount, out.SkipTaskIDs = &run.Partial, &run.Reused, []string{}
		if input.Reuse != nil {
			out.SkipTaskIDs = append(out.SkipTaskIDs, input.Reuse.Names...)
		}
	}
	return out, nil
}
