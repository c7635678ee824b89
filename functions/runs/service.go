package runs

import (
	"context"
	"errors"
	"log/slog"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/signal"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service holds the rules of runs as the interface shows them.
type service struct {
	table    table.Table
	blob     blob.Store
	log      *slog.Logger
	logs     *runlog.Store
	hub      *signal.Hub
	waiting  fn.Waiting
	launcher *launch.Launcher
	cursors  httpapi.Cursors
}

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

// create accepts a run, and waits for its end if it is told to. Whatever refuses
// it is known before the answer begins.
func (s *service) create(ctx context.Context, in *createInput) (out httpapi.Stream[RunResponse], err error) {
	req, err := in.Body.launch(in.Key)
	if err != nil {
		return out, err
	}
	run, err := s.launcher.Accept(ctx, tenant.From(ctx).OrgID, req)
	if err != nil {
		return out, err
	}
	if in.Body.Execute {
		return httpapi.Later[RunResponse](func(ctx context.Context) (any, error) { return s.await(ctx, run.ID) }), nil
	}
	return httpapi.Whole(response(&run)), nil
}

// cancel stops a run. Errors: errs.NotFound, errs.Invalid if it has ended
// otherwise.
func (s *service) cancel(ctx context.Context, in *runAction) (CancelResponse, error) {
	if err := known(in.RunID); err != nil {
		return CancelResponse{}, err
	}
	run, err := s.launcher.Cancel(ctx, tenant.From(ctx).OrgID, in.RunID)
	return cancelled(&run), err
}

// retry makes a new run of an ended one. Errors: errs.NotFound, errs.Conflict.
func (s *service) retry(ctx context.Context, in *runAction) (RetryResponse, error) {
	return s.again(ctx, in.RunID, false)
}

// retryFromFailed is retry, but reuses what succeeded.
func (s *service) retryFromFailed(ctx context.Context, in *runAction) (RetryResponse, error) {
	return s.again(ctx, in.RunID, true)
}

func (s *service) again(ctx context.Context, id string, partial bool) (RetryResponse, error) {
	if err := known(id); err != nil {
		return RetryResponse{}, err
	}
	made, err := s.launcher.Retry(ctx, tenant.From(ctx).OrgID, id, partial)
	return RetryResponse{
		RunResponse: response(&made.Run), ParentRunID: made.Run.Parent, Partial: made.Run.Partial,
		ReusedTaskCount: made.Run.Reused, SkipTaskIDs: append([]string{}, made.Names...),
	}, err
}

// logsPage reads a page of a run's log. Errors: errs.NotFound; errs.Invalid for a
// token that is not this log's.
func (s *service) logsPage(ctx context.Context, in *logsQuery) (LogPage, error) {
	run, err := s.load(ctx, in.RunID)
	if err != nil {
		return LogPage{}, err
	}
	from, err := s.cursors.Open(ctx, in)
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
	return LogPage{Events: page.Events, NextToken: s.cursors.Seal(ctx, in, page.Next), Source: page.Source}, nil
}
