package runs

import (
	"context"
	"encoding/json"

	"millrace/shared/run/engine"
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
	r, err := s.reader(ctx, run)
	if err != nil {
		return nil, err
	}
	r.outputs = outputs{store: s.blob, run: run, left: inlineOutputs}
	r.text, r.queued = inlineText, s.whyQueued(run)
	out := &RunDetail{RunRecord: record(run), LogicalDate: r.input.LogicalDate, Parameters: r.input.Parameters}
	if err := s.showResult(ctx, r.flow, r, out); err != nil {
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
		if r.input.Reuse != nil {
			out.SkipTaskIDs = append(out.SkipTaskIDs, r.input.Reuse.Names...)
		}
	}
	return out, nil
}
