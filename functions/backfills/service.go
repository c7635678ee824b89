package backfills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"millrace/shared/account/setting"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/schedule"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service implements the rules of backfills.
type service struct {
	jobs      record.Set[Job, *Job]
	schedules record.Set[schedule.Schedule, *schedule.Schedule]
	launcher  *launch.Launcher
	queues    queue.Queues
	clock     clock.Clock
	log       *slog.Logger
	cursors   httpapi.Cursors
}

func newService(d fn.Deps) *service {
	return &service{
		jobs: record.New[Job](kind, d.Records()), schedules: record.New[schedule.Schedule](schedule.Kind, d.Records()),
		launcher: d.Launcher(), queues: d.Queues, clock: d.Clock, log: d.Log,
	}
}

// available returns errs.Unavailable where backfills are switched off.
func (s *service) available(ctx context.Context) error {
	on, err := setting.Backfills(ctx, s.jobs.Table, tenant.From(ctx).OrgID)
	if err == nil && !on {
		err = errs.New(errs.Unavailable, "Backfills are switched off for this workspace")
	}
	return err
}

// create creates a backfill, or shows what it would run. Errors:
// errs.Unprocessable, errs.NotFound for the flow or what its schedule names,
// errs.Conflict for an inactive deployment, errs.Unavailable.
func (s *service) create(ctx context.Context, in *createIn) (BackfillResponse, error) {
	if err := s.available(ctx); err != nil {
		return BackfillResponse{}, err
	}
	job, made, err := s.prepare(ctx, in.FlowName, &in.Body)
	if err != nil {
		return BackfillResponse{}, err
	}
	if in.Body.DryRun {
		job.Status, job.DryRun = dryRun, true
		return response(job, made, nil), nil
	}
	id := "bf_" + ids.New(s.clock.Now())
	job.BackfillID, job.Status = id, running
	job.Entry = Due.Entry(s.jobs.Key(ctx, id), s.clock.Now().Add(lookEvery))
	made.Key = planKey(ctx, id)
	out, err := s.jobs.Write(ctx, id, record.Change[Job]{
		Next: func(now *Job) (Job, error) {
			if now != nil { // a first attempt succeeded, and its answer was lost
				return *now, nil
			}
			return job, nil
		},
		Also: func(record.Outcome[Job]) []table.Write {
			return []table.Write{table.Put{Item: *made, If: table.IsNew()}}
		},
	})
	if err != nil {
		return BackfillResponse{}, err
	}
	s.kick(ctx, &out.After)
	return response(out.After, made, nil), nil
}

// prepare returns the job and the plan that a request asks for, neither of them
// stored, after it was checked that its first run would not be refused.
func (s *service) prepare(ctx context.Context, flow string, body *BackfillRequest) (Job, *plan, error) {
	w, err := s.window(ctx, flow, body)
	if err != nil {
		return Job{}, nil, err
	}
	job := Job{
		FlowName: flow, FlowVersion: w.version, Deployment: w.deployment, Environment: cmp.Or(body.Environment, w.environment), ExecutionMode: w.tier,
		Total: len(w.at), MaxConcurrency: 1, FromEpoch: w.from.Unix(), ToEpoch: w.to.Unix(), Mode: &w.mode,
	}
	if body.MaxConcurrency != nil {
		job.MaxConcurrency = *body.MaxConcurrency
	}
	made := &plan{Times: encodeTimes(w.at), at: w.at, Parameters: w.parameters}
	_, err = s.launcher.Check(ctx, tenant.From(ctx).OrgID, job.request(made, 0))
	if w.unscheduled && errs.CodeOf(err) == errs.NotFound {
		err = s.deployed(ctx, &job, made)
	}
	return job, made, err
}

// deployed makes the job of a flow with neither a schedule nor a first version run the
// deployment that has the flow's name, as one that was deployed by the command line has.
func (s *service) deployed(ctx context.Context, job *Job, made *plan) error {
	job.FlowVersion, job.Deployment = nil, &job.FlowName
	runs, err := s.launcher.Check(ctx, tenant.From(ctx).OrgID, job.request(made, 0))
	if errs.CodeOf(err) == errs.NotFound || err == nil && runs != job.FlowName {
		return errs.Field([]any{"path", "flow_name"}, job.FlowName, "flow '%s' has no schedule, and neither a version '%s' nor a deployment of its name "+
			"that would run instead: create a schedule of the version to run, which may be disabled", job.FlowName, firstVersion)
	}
	return err
}

// request is the run of an interval.
func (j *Job) request(p *plan, index int) launch.Request {
	at := logicalTime(p.at[index])
	text := func(layout string) json.RawMessage { return fmt.Appendf(nil, "%q", at.Format(layout)) }
	const withOffset = "2006-01-02T15:04:05-07:00"
	req := launch.Request{
		Deployment: deref(j.Deployment), Version: deref(j.FlowVersion), Environment: deref(j.Environment), Mode: deref(j.ExecutionMode),
		Parameters: p.Parameters,
		Injected: map[string]json.RawMessage{
			"data_interval_start": text(withOffset), "logical_date": text(withOffset), "ds": text(time.DateOnly),
		},
		LogicalDate: clock.Format(at),
		Occurrence:  &launch.Occurrence{Kind: launch.Backfill, ID: j.BackfillID, Index: index},
	}
	if j.Deployment == nil {
		req.Flow = j.FlowName
	}
	return req
}

// list lists backfills, the newest first. Errors: errs.Unavailable,
// errs.Invalid for a bad next_token.
func (s *service) list(ctx context.Context, in *listIn) (BackfillListResponse, error) {
	out := BackfillListResponse{Items: []BackfillResponse{}}
	if err := s.available(ctx); err != nil {
		return out, err
	}
	jobs, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(before string) ([]Job, string, error) {
		return s.newest(ctx, before, in.Limit)
	})
	for i := range jobs {
		out.Items = append(out.Items, response(jobs[i], &plan{}, nil))
	}
	out.NextToken = next
	return out, err
}

// newest returns up to limit backfills of those before an id, "" for the newest ones,
// and the id before which the next page begins, "" if there is none.
func (s *service) newest(ctx context.Context, before string, limit int) (jobs []Job, next string, err error) {
	q := table.Query{PK: s.jobs.Partition(ctx), Reverse: true, Limit: limit + 1, Consistent: true}
	if before != "" {
		q.Range = table.Before(before)
	}
	for item, err := range table.All(ctx, s.jobs.Table, q) {
		var job Job
		if err == nil {
			err = table.Unmarshal(item, &job)
		}
		if err != nil {
			return nil, "", fmt.Errorf("list backfills: %w", err)
		}
		if len(jobs) == limit {
			return jobs, next, nil
		}
		jobs, next = append(jobs, job), job.SK
	}
	return jobs, "", nil
}

// get returns a backfill. Errors: errs.NotFound, errs.Unavailable.
func (s *service) get(ctx context.Context, in *Path) (BackfillResponse, error) {
	if err := s.available(ctx); err != nil {
		return BackfillResponse{}, err
	}
	return s.detail(ctx, in.ID)
}

// detail returns a backfill as it is now.
func (s *service) detail(ctx context.Context, id string) (BackfillResponse, error) {
	job, err := s.jobs.Get(ctx, id)
	if err != nil {
		return BackfillResponse{}, err
	}
	p, done, err := s.load(ctx, id) // after the job: it has what the job knows of
	if err != nil {
		return BackfillResponse{}, err
	}
	return response(job, p, done), nil
}

func response(j Job, p *plan, done map[int]settled) BackfillResponse {
	out := BackfillResponse{Job: j, Parameters: p.Parameters, Intervals: j.views(p.at, done)}
	if out.Parameters == nil {
		out.Parameters = map[string]json.RawMessage{}
	}
	return out
}

// cancel stops a backfill, and lets its runs go on. Errors: errs.NotFound,
// errs.Conflict for a completed one, errs.Unavailable.
func (s *service) cancel(ctx context.Context, in *cancelIn) (BackfillResponse, error) {
	if err := s.available(ctx); err != nil {
		return BackfillResponse{}, err
	}
	_, err := s.jobs.Write(ctx, in.ID, record.Change[Job]{Action: "cancel", Next: func(now *Job) (next Job, err error) {
		if now == nil {
			return next, s.jobs.Absent(in.ID)
		}
		if now.Status == completed {
			return next, errs.New(errs.Conflict, "Backfill '%s' is COMPLETED", in.ID)
		}
		next = *now
		next.Status = cancelled
		if next.ended() {
			next.Entry = Due.Entry(s.jobs.Key(ctx, in.ID), time.Time{})
		}
		return next, nil
	}})
	if err != nil {
		return BackfillResponse{}, err
	}
	if err := s.advance(ctx, in.ID, ""); err != nil { // runs that were being made are made, or not
		return BackfillResponse{}, err
	}
	return s.detail(ctx, in.ID)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
