package runs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service implements the rules of runs.
type service struct {
	table    table.Table
	blob     blob.Store
	log      *slog.Logger
	logs     *runlog.Store
	hub      *notify.Broker
	waiting  fn.Waiting
	launcher *launch.Launcher
	cursors  httpapi.Cursors
	clock    clock.Clock
}

// known returns the id of a run given its id or its slug. Errors: errs.NotFound
// for an invalid id and for an unknown slug; errs.Conflict if several runs have
// the slug.
func (s *service) known(ctx context.Context, name string) (string, error) {
	if _, ok := ids.Time(name); ok {
		return name, nil
	}
	found, err := runstate.FindSlug(ctx, s.table, tenant.From(ctx).OrgID, name, s.clock.Now().Add(clockSkew))
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		return "", errs.New(errs.Conflict, "Several runs are called %s; name the run by its id: %s", name, strings.Join(found, ", "))
	case len(found) == 0:
		return "", errs.New(errs.NotFound, "Run not found: %s", name)
	}
	return found[0], nil
}

// clockSkew is how far the clock of a machine that accepted a run may be ahead
// of this one's.
const clockSkew = time.Minute

// load reads a run's record. Errors: those of known.
func (s *service) load(ctx context.Context, name string) (*runstate.Run, error) {
	id, err := s.known(ctx, name)
	if err != nil {
		return nil, err
	}
	run, err := runstate.GetRun(ctx, s.table, tenant.From(ctx).OrgID, id, s.clock.Now())
	return &run, err
}

// create accepts a run, and waits for its end if it is told to. Whatever refuses
// it is known before the answer begins.
func (s *service) create(ctx context.Context, in *createInput) (out httpapi.Stream[runstate.RunResponse], err error) {
	req, err := in.Body.launch(in.Key, s.launcher.Tiers)
	if err != nil {
		return out, err
	}
	run, err := s.launcher.Accept(ctx, tenant.From(ctx).OrgID, req)
	if err != nil {
		return out, err
	}
	if in.Body.Execute {
		return httpapi.Later[runstate.RunResponse](func(ctx context.Context) (any, error) { return s.await(ctx, run.ID) }), nil
	}
	return httpapi.Whole(run.Response()), nil
}

// cancel stops a run. Errors: errs.NotFound, errs.Invalid if it has ended
// otherwise.
func (s *service) cancel(ctx context.Context, in *runAction) (CancelResponse, error) {
	id, err := s.known(ctx, in.RunID)
	if err != nil {
		return CancelResponse{}, err
	}
	run, err := s.launcher.Cancel(ctx, tenant.From(ctx).OrgID, id)
	return cancelled(&run), err
}

// retry creates a new run of an ended one. Errors: errs.NotFound;
// errs.Conflict.
func (s *service) retry(ctx context.Context, in *runAction) (RetryResponse, error) {
	return s.again(ctx, in.RunID, func(org, id string) (launch.RetryResult, error) {
		return s.launcher.Retry(ctx, org, id, false)
	})
}

// retryFromFailed is like retry, but reuses what succeeded, and may use another
// version of the flow.
func (s *service) retryFromFailed(ctx context.Context, in *retryAction) (RetryResponse, error) {
	return s.again(ctx, in.RunID, func(org, id string) (launch.RetryResult, error) {
		return s.launcher.RetryFromFailed(ctx, org, id, in.FlowVersion)
	})
}

func (s *service) again(ctx context.Context, name string, retry func(org, id string) (launch.RetryResult, error)) (RetryResponse, error) {
	id, err := s.known(ctx, name)
	if err != nil {
		return RetryResponse{}, err
	}
	made, err := retry(tenant.From(ctx).OrgID, id)
	return RetryResponse{
		RunResponse: made.Run.Response(), ParentRunID: made.Run.Parent, Partial: made.Run.Partial,
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
	filter := runlog.Filter{Task: in.TaskName, Level: in.Level}
	if filter.Since, err = httpapi.QueryTime("since", in.Since); err != nil {
		return LogPage{}, err
	}
	limit, ended := min(in.Limit, runlog.MaxLimit), run.Status.RunEnded()
	page, err := s.logs.Filtered(ctx, run.Org, run.ID, ended, from, limit, filter)
	if errors.Is(err, blob.ErrNotFound) {
		// The archive replaced the batch while the page was read.
		page, err = s.logs.Filtered(ctx, run.Org, run.ID, true, from, limit, filter)
	}
	if errors.Is(err, runlog.ErrBadCursor) {
		return LogPage{}, errs.Wrap(errs.Invalid, err, "Invalid next_token")
	}
	if err != nil {
		return LogPage{}, err
	}
	events := make([]httpapi.Raw[LogEvent], len(page.Events))
	for i, e := range page.Events {
		events[i] = httpapi.Raw[LogEvent](e)
	}
	return LogPage{Events: events, NextToken: s.cursors.Seal(ctx, in, page.Next), Source: page.Source}, nil
}
