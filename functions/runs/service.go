package runs

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// known refuses what cannot be a run's id, as if there were no such run.
func known(id string) error {
	if _, ok := ids.Time(id); !ok {
		return errs.New(errs.NotFound, "Run not found: %s", id)
	}
	return nil
}

// load reads a run's record. Errors: errs.NotFound.
func (s *service) load(ctx context.Context, id string) (*runstate.Run, error) {
	if err := known(id); err != nil {
		return nil, err
	}
	run, err := runstate.GetRun(ctx, s.table, tenant.From(ctx).OrgID, id)
	return &run, err
}

// create accepts a run. Whatever refuses it is known before the answer begins.
func (s *service) create(ctx context.Context, in *createInput) (*huma.StreamResponse, error) {
	req, err := in.Body.launch(in.Key)
	if err != nil {
		return nil, err
	}
	run, err := s.launcher.Accept(ctx, tenant.From(ctx).OrgID, req)
	if err != nil {
		return nil, err
	}
	if in.Body.Execute {
		return s.follow(ctx, run.ID), nil
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		begin(hc).json(response(&run))
	}}, nil
}

// cancel stops a run. Errors: errs.NotFound, errs.Invalid if it has ended
// otherwise.
func (s *service) cancel(ctx context.Context, id string) (CancelResponse, error) {
	if err := known(id); err != nil {
		return CancelResponse{}, err
	}
	run, err := s.launcher.Cancel(ctx, tenant.From(ctx).OrgID, id)
	return cancelled(&run), err
}

// retry makes a new run of an ended one. Errors: errs.NotFound, errs.Conflict.
func (s *service) retry(ctx context.Context, id string, partial bool) (RetryResponse, error) {
	if err := known(id); err != nil {
		return RetryResponse{}, err
	}
	made, err := s.launcher.Retry(ctx, tenant.From(ctx).OrgID, id, partial)
	return RetryResponse{
		RunResponse: response(&made.Run), ParentRunID: made.Run.Parent, Partial: made.Run.Partial,
		ReusedTaskCount: made.Run.Reused, SkipTaskIDs: append([]string{}, made.Names...),
	}, err
}

// page reads a page of a run's log. Errors: errs.NotFound; errs.Invalid for a
// token that is not this log's.
func (s *service) page(ctx context.Context, in *logsQuery) (LogPage, error) {
	run, err := s.load(ctx, in.RunID)
	if err != nil {
		return LogPage{}, err
	}
	scope := logsID + "?run_id=" + run.ID
	from, err := s.cursors.Open(run.Org, scope, in.NextToken)
	if err != nil {
		return LogPage{}, err
	}
	limit, ended := min(in.Limit, runlog.MaxLimit), run.Status.RunEnded()
	page, err := s.logs.Page(ctx, run.Org, run.ID, ended, from, limit)
	if errors.Is(err, blob.ErrNotFound) {
		// The archive took the batch's place while the page was read.
		page, err = s.logs.Page(ctx, run.Org, run.ID, true, from, limit)
	}
	if errors.Is(err, runlog.ErrBadCursor) {
		return LogPage{}, errs.Wrap(errs.Invalid, err, "Invalid next_token")
	}
	if err != nil {
		return LogPage{}, err
	}
	return LogPage{Events: page.Events, NextToken: s.cursors.Seal(run.Org, scope, page.Next), Source: page.Source}, nil
}
