package schedules

import (
	"cmp"
	"context"
	"maps"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/schedule"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// service implements the rules of schedules.
type service struct {
	schedules record.Set[schedule.Schedule, *schedule.Schedule]
	registry  registry.Store
	launcher  *launch.Launcher
	clock     clock.Clock
	cursors   httpapi.Cursors
}

func newService(d fn.Deps) *service {
	return &service{
		schedules: record.New[schedule.Schedule](schedule.Kind, d.Records()), registry: d.Registry(), launcher: d.Launcher(), clock: d.Clock,
	}
}

// put creates a schedule or replaces the one of the same id. Errors:
// errs.Unprocessable, errs.NotFound for what it names, errs.Invalid for an
// unknown tier, errs.TooMany.
func (s *service) put(ctx context.Context, in *createIn) (schedule.Schedule, error) {
	body := &in.Body
	next := schedule.Schedule{
		FlowName: httpapi.Value(body.FlowName), FlowVersion: body.FlowVersion, Deployment: body.Deployment,
		Mode: body.Mode, IntervalSeconds: body.IntervalSeconds, CronExpression: body.CronExpression, Timezone: httpapi.Value(body.Timezone),
		Enabled: body.Enabled == nil || *body.Enabled, CatchupPolicy: httpapi.Value(body.CatchupPolicy),
		Environment: body.Environment, Parameters: body.Parameters, ExecutionMode: body.ExecutionMode,
	}
	id := "sch_" + ids.New(s.clock.Now())
	if body.ScheduleID != nil {
		id = *body.ScheduleID
	}
	return s.write(ctx, id, func(now *schedule.Schedule) (schedule.Schedule, error) {
		made := next
		if now != nil {
			made.Meta, made.Entry, made.NextRunEpoch, made.OfDeployment = now.Meta, now.Entry, now.NextRunEpoch, now.OfDeployment
			made.LastRunAt, made.LastRunID, made.LastError = now.LastRunAt, now.LastRunID, now.LastError
		}
		return made, nil
	})
}

// list lists schedules in order of their ids. Errors: errs.Invalid for a bad
// next_token.
func (s *service) list(ctx context.Context, in *listIn) (ScheduleListResponse, error) {
	all, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]schedule.Schedule, string, error) {
		return s.schedules.Page(ctx, after, in.Limit, func(found *schedule.Schedule) bool {
			return (in.FlowName == "" || found.FlowName == in.FlowName) && (in.Mode == "" || found.Mode == in.Mode) &&
				(in.Enabled == nil || found.Enabled == *in.Enabled)
		})
	})
	return ScheduleListResponse{all, next}, err
}

// get returns a schedule. Errors: errs.NotFound.
func (s *service) get(ctx context.Context, in *Path) (schedule.Schedule, error) {
	return s.schedules.Get(ctx, in.ID)
}

// patch changes a schedule. Errors: errs.NotFound, and those of put.
func (s *service) patch(ctx context.Context, in *patchIn) (schedule.Schedule, error) {
	return s.write(ctx, in.ID, func(now *schedule.Schedule) (schedule.Schedule, error) {
		if now == nil {
			return schedule.Schedule{}, s.schedules.Absent(in.ID)
		}
		next := *now
		in.Body.apply(&next)
		return next, nil
	})
}

// apply changes what a patch has, and clears what is null in it.
func (p *SchedulePatchRequest) apply(s *schedule.Schedule) {
	httpapi.Change(&s.FlowVersion, p.FlowVersion, p.Nulls.Has("flow_version"))
	httpapi.Change(&s.Deployment, p.Deployment, p.Nulls.Has("deployment"))
	httpapi.Change(&s.IntervalSeconds, p.IntervalSeconds, p.Nulls.Has("interval_seconds"))
	httpapi.Change(&s.CronExpression, p.CronExpression, p.Nulls.Has("cron_expression"))
	httpapi.Change(&s.Environment, p.Environment, p.Nulls.Has("environment"))
	httpapi.Change(&s.ExecutionMode, p.ExecutionMode, p.Nulls.Has("execution_mode"))
	httpapi.Set(&s.FlowName, p.FlowName, p.Nulls.Has("flow_name"))
	httpapi.Set(&s.Mode, p.Mode, false)
	httpapi.Set(&s.Timezone, p.Timezone, p.Nulls.Has("timezone"))
	httpapi.Set(&s.Enabled, p.Enabled, false)
	httpapi.Set(&s.CatchupPolicy, p.CatchupPolicy, p.Nulls.Has("catchup_policy"))
	httpapi.Set(&s.Parameters, p.Parameters, p.Nulls.Has("parameters"))
	if p.Deployment != nil && p.FlowName == nil {
		s.FlowName, s.FlowVersion = "", p.FlowVersion // the deployment's
	}
}

// write makes a change, after what it results in was checked.
func (s *service) write(ctx context.Context, id string, next func(now *schedule.Schedule) (schedule.Schedule, error)) (schedule.Schedule, error) {
	var needs names
	out, err := s.schedules.Write(ctx, id, record.Change[schedule.Schedule]{
		Next: func(now *schedule.Schedule) (schedule.Schedule, error) {
			made, err := next(now)
			if err != nil {
				return made, err
			}
			made.ScheduleID = id
			if err := keeps(now, &made); err != nil {
				return made, err
			}
			// What it names may be gone: it can be disabled all the same.
			disabled := now != nil && now.Enabled && !made.Enabled && made.FlowName == now.FlowName
			if needs, err = s.check(ctx, &made, disabled); err != nil {
				return made, err
			}
			return made, made.Plan(s.schedules.Key(ctx, id), now, s.clock.Now())
		},
		Also: func(o record.Outcome[schedule.Schedule]) []table.Write { return s.depend(ctx, o, needs) },
	})
	return out.After, err
}

// names is what a schedule names: a flow unless it names a deployment, and an
// environment or none.
type names struct {
	flow        *registry.Head
	environment *registry.Environment
}

// check completes a schedule with its defaults, and refuses one whose run would
// be refused, unless it is just being disabled. It returns what the schedule
// names.
func (s *service) check(ctx context.Context, made *schedule.Schedule, disabled bool) (needs names, err error) {
	made.Timezone = cmp.Or(made.Timezone, "UTC")
	made.CatchupPolicy = cmp.Or(made.CatchupPolicy, schedule.CatchUpNone)
	if made.ExecutionMode != nil {
		size, err := s.registry.Tiers.Parse(*made.ExecutionMode)
		if err != nil {
			return needs, err
		}
		made.ExecutionMode = new(string(size))
	}
	if made.Deployment == nil && (made.FlowName == "" || made.FlowVersion == nil) {
		return needs, errs.Field(errs.Body("flow_version"), nil, "either deployment, or both flow_name and flow_version, must be given")
	}
	if made.Deployment != nil && made.FlowVersion != nil {
		return needs, errs.Field(errs.Body("flow_version"), *made.FlowVersion, "the deployment selects the version")
	}
	if disabled {
		return needs, nil
	}
	flow, err := s.launcher.Check(ctx, tenant.From(ctx).OrgID, request(made, nil))
	if err != nil {
		return needs, err
	}
	if made.FlowName != "" && made.FlowName != flow {
		return needs, errs.Field(errs.Body("flow_name"), made.FlowName, "the deployment is of the flow %s", flow)
	}
	made.FlowName = flow
	if made.Environment != nil {
		environment, err := s.registry.NamedEnvironment(ctx, *made.Environment, errs.Body("environment"))
		if err != nil {
			return needs, err
		}
		needs.environment = &environment
	}
	if made.Deployment == nil { // a deployment keeps its flow
		head, err := registry.GetFlow(ctx, s.schedules.Table, tenant.From(ctx).OrgID, made.FlowName)
		if err != nil {
			return needs, err
		}
		needs.flow = &head
	}
	return needs, nil
}

// keeps refuses what only a deployment may do: make a schedule that is set on it,
// or change what it has of the deployment.
func keeps(now, made *schedule.Schedule) error {
	switch {
	case now == nil && schedule.IsDeploymentID(made.ScheduleID):
		return errs.Field(errs.Body("schedule_id"), made.ScheduleID, "an id of this form is that of a schedule set on a deployment: set it there, or choose another")
	case now != nil && now.OfDeployment && !made.KeepsOf(now):
		return errs.New(errs.Conflict, "Schedule '%s' is set on deployment '%s': change its timing by the deployment's settings, schedule and timezone",
			made.ScheduleID, httpapi.Value(now.Deployment))
	}
	return nil
}

// depend prevents the deletion of the flow and the environment that an enabled
// schedule names, and permits that of those that it named before.
func (s *service) depend(ctx context.Context, o record.Outcome[schedule.Schedule], needs names) (writes []table.Write) {
	org, id, kind, now := tenant.From(ctx).OrgID, o.After.ScheduleID, schedule.Kind.Type, s.clock.Now()
	was, is := dependsOn(&o.Before), dependsOn(&o.After)
	if was.flow != "" && was.flow != is.flow {
		writes = append(writes, registry.Release(org, was.flow, kind, id))
	}
	if was.environment != "" && was.environment != is.environment {
		writes = append(writes, registry.ReleaseEnvironment(org, was.environment, kind, id)...)
	}
	if is.flow != "" {
		writes = append(writes, registry.Depend(*needs.flow, kind, id, clock.ToMillis(now))...)
	}
	if is.environment != "" {
		writes = append(writes, registry.DependOnEnvironment(needs.environment, kind, id, now)...)
	}
	return writes
}

// dependsOn returns the flow and the environment that a schedule keeps from
// being deleted, empty for none.
func dependsOn(s *schedule.Schedule) (out struct{ flow, environment string }) {
	if !s.Enabled {
		return out
	}
	out.environment = httpapi.Value(s.Environment)
	if s.Deployment == nil {
		out.flow = s.FlowName
	}
	return out
}

// trigger starts a run now. Errors: errs.NotFound, and those of a run.
func (s *service) trigger(ctx context.Context, in *triggerIn) (runstate.RunResponse, error) {
	found, err := s.schedules.Get(ctx, in.ID)
	if err != nil {
		return runstate.RunResponse{}, err
	}
	req := request(&found, in.Body)
	req.Trigger = launch.Schedule
	run, err := s.launcher.Accept(ctx, tenant.From(ctx).OrgID, req)
	return run.Response(), err
}

// request is the run that a schedule asks for.
func request(s *schedule.Schedule, by *ScheduleTriggerRequest) launch.Request {
	req := launch.Request{
		Deployment: httpapi.Value(s.Deployment), Version: httpapi.Value(s.FlowVersion), Environment: httpapi.Value(s.Environment),
		Mode: httpapi.Value(s.ExecutionMode), Parameters: s.Parameters,
	}
	if s.Deployment == nil {
		req.Flow = s.FlowName
	}
	if by != nil && len(by.Parameters) > 0 {
		req.Parameters = maps.Clone(s.Parameters)
		if req.Parameters == nil {
			req.Parameters = by.Parameters
		}
		maps.Copy(req.Parameters, by.Parameters)
	}
	return req
}
