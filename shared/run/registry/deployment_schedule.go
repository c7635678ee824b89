package registry

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"millrace/shared/kit/record"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/schedule"
)

func (s Store) schedules() record.Set[schedule.Schedule, *schedule.Schedule] {
	return record.New[schedule.Schedule](schedule.Kind, s.records())
}

// scheduleID returns the id of the schedule that is set on the deployment, nil if
// it has none.
func (d *Deployment) scheduleID() *string {
	if d.Schedule == "" {
		return nil
	}
	return new(schedule.DeploymentID(d.Name))
}

// CheckSchedule returns the violations of a deployment's cron expression and time
// zone in a request, each nil or empty if it is not given.
func CheckSchedule(expression, zone *string) []errs.Detail {
	if expression == nil {
		expression = new("")
	}
	if zone == nil {
		zone = new("")
	}
	if invalid, ok := errors.AsType[*errs.Error](checkTiming(*expression, *zone)); ok {
		return invalid.Details
	}
	return nil
}

func checkTiming(expression, zone string) error {
	if expression == "" {
		expression = "@daily" // so that the zone is checked
	}
	_, err := schedule.CronTiming(expression, zone, "schedule")
	return err
}

// checkSchedule is [CheckSchedule] of a changed deployment, of which the request may
// have named one of the two only. A zone that was stored before zones were checked
// does no harm while nothing follows it.
func checkSchedule(old, next *Deployment) error {
	if old != nil && old.Schedule == next.Schedule && old.Timezone == next.Timezone {
		return nil
	}
	return checkTiming(next.Schedule, next.Timezone)
}

// moveSchedule makes, changes or deletes the schedule that is set on the deployment.
// The audit entry of the deployment tells of it. Errors: errs.Unprocessable if its
// runs would be refused; errs.Conflict if another schedule has its id.
func (p *plan) moveSchedule(o record.Outcome[Deployment]) error {
	d, id := &o.After, schedule.DeploymentID(o.After.Name)
	switch {
	case !o.Changed && d.Schedule != "":
		found, exists, err := p.schedules().Find(p.ctx, id)
		if exists {
			p.out.Schedule = &found
		}
		return err
	case !o.Changed:
		return nil
	case d.Schedule == "" && o.Before.Schedule != "":
		writes, err := p.dropSchedule(p.ctx, &o.Before)
		p.add(writes...)
		return err
	case d.Schedule == "":
		return nil
	}
	out, writes, _, err := p.schedules().Prepare(p.ctx, id, record.Change[schedule.Schedule]{
		Next: func(now *schedule.Schedule) (schedule.Schedule, error) {
			if now != nil && !now.OfDeployment {
				return *now, errs.New(errs.Conflict, "Schedule '%s' exists already and is not that of deployment '%s'", id, d.Name)
			}
			next := schedule.SetOnDeployment(now, d.Name, d.FlowName, d.Schedule, d.Timezone)
			if err := p.checkScheduled(d.Parameters, next.Parameters); err != nil {
				return next, err
			}
			return next, next.Plan(p.schedules().Key(p.ctx, id), now, p.now)
		},
	})
	if err != nil {
		return err
	}
	p.add(writes...)
	p.out.Schedule = &out.After
	return nil
}

// checkScheduled checks the parameters of the runs that the schedule starts: the
// deployment's and over them the schedule's.
func (p *plan) checkScheduled(params, over map[string]json.RawMessage) error {
	flow, err := p.flow()
	if err != nil {
		return err
	}
	ctx, end := budget.WithWaitLimit(p.ctx)
	defer end()
	all := map[string]json.RawMessage{}
	maps.Copy(all, params)
	maps.Copy(all, over)
	_, faults := flow.CheckParams(ctx, all, nil)
	if err := context.Cause(ctx); err != nil || len(faults) == 0 {
		return err
	}
	return errs.Field(errs.Body("schedule"), nil, "the runs of the deployment's schedule would be refused: %s", errs.Text(errs.Validation(faults...)))
}

// dropSchedule returns the writes that delete the schedule that is set on a
// deployment, none if it has none.
func (s Store) dropSchedule(ctx context.Context, d *Deployment) ([]table.Write, error) {
	if d.Schedule == "" {
		return nil, nil
	}
	org, id := tenantOf(ctx), schedule.DeploymentID(d.Name)
	_, writes, _, err := s.schedules().Prepare(ctx, id, record.Change[schedule.Schedule]{
		Next: func(now *schedule.Schedule) (schedule.Schedule, error) {
			if now == nil {
				return schedule.Schedule{}, s.schedules().Absent(id)
			}
			return schedule.Schedule{}, record.ErrDelete
		},
		Also: func(o record.Outcome[schedule.Schedule]) []table.Write {
			if !o.Before.Enabled || o.Before.Environment == nil {
				return nil
			}
			return ReleaseEnvironment(org, *o.Before.Environment, schedule.Kind.Type, id)
		},
	})
	if errs.CodeOf(err) == errs.NotFound {
		err = nil
	}
	return writes, err
}
