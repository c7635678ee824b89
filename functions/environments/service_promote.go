package environments

import (
	"context"
	"maps"
	"slices"
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/run/schedule"
)

// promote gives the target what the source has. Errors: errs.Unprocessable for what
// the source does not have, errs.Forbidden for a protected target, errs.Conflict for
// what changes meanwhile.
func (s *service) promote(ctx context.Context, in *promoteIn) (EnvironmentPromoteResponse, error) {
	body := &in.Body
	out := EnvironmentPromoteResponse{Source: body.Source, Target: body.Target, DryRun: body.DryRun}
	if body.Source == body.Target {
		return out, errs.Field(errs.Body("target"), body.Target, "is the source")
	}
	target, err := s.store.NamedEnvironment(ctx, body.Target, errs.Body("target"))
	if err != nil {
		return out, err
	}
	if target.Protected && !mayPromote(tenant.From(ctx)) { //guard:environment/protected false
		return out, errs.New(errs.Forbidden, "Permission denied: environment '%s' is protected: only an owner or admin promotes into it", target.Name)
	}
	if _, err := s.store.NamedEnvironment(ctx, body.Source, errs.Body("source")); err != nil {
		return out, err
	}
	from, err := s.read(ctx, body.Source)
	if err != nil {
		return out, err
	}
	to, err := s.read(ctx, body.Target)
	if err != nil {
		return out, err
	}
	variables, faults := planVariables(from, to, body.Variables)
	deployments, more := planDeployments(from, to, body)
	if faults = append(faults, more...); len(faults) > 0 {
		return out, errs.Validation(faults...)
	}
	if err := s.freeNames(ctx, deployments); err != nil {
		return out, err
	}
	out.Variables, out.Deployments = variables, deployments
	if !body.DryRun {
		if err := s.applyVariables(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, s.deploy(ctx, &out, from)
}

// mayPromote reports whether a caller may promote into a protected environment. An
// API key may if it acts as an owner.
func mayPromote(p tenant.Principal) bool {
	return p.FullAccess || !p.IsKey() && p.Role.Rank() >= tenant.Admin.Rank()
}

// planVariables returns what becomes of the target's variables.
func planVariables(from, to contents, chosen *[]string) ([]PromotedVariable, []errs.Detail) {
	keys, faults := slices.Sorted(maps.Keys(from.variables)), []errs.Detail(nil)
	if chosen != nil {
		keys = *chosen
		for i, key := range keys {
			if _, ok := from.variables[key]; !ok || slices.Contains(keys[:i], key) {
				faults = append(faults, errs.Detail{
					Type: "value_error", Loc: errs.Body("variables", i), Msg: "the source has no such variable, or it is named twice", Input: key,
				})
			}
		}
	}
	out, room := []PromotedVariable{}, registry.MaxVariables-len(to.variables)
	for _, key := range keys {
		was, is := at(to.variables, key), from.variables[key]
		switch {
		case was == nil:
			out = append(out, PromotedVariable{key, nil, is, "added"})
			room--
		case *was != is:
			out = append(out, PromotedVariable{key, was, is, "changed"})
		}
	}
	if room < 0 {
		faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body("variables"), Msg: "the target would have more than 200 variables", Input: len(keys)})
	}
	return out, faults
}

// planDeployments returns what becomes of the target's deployments: flow by flow, in
// order of their names.
func planDeployments(from, to contents, body *EnvironmentPromoteRequest) ([]PromotedDeployment, []errs.Detail) {
	out, faults := []PromotedDeployment{}, []errs.Detail(nil)
	known := map[string]bool{}
	for _, flow := range slices.Sorted(maps.Keys(from.flows)) {
		var sources []registry.Deployment
		for _, d := range from.flows[flow] {
			known[d.Name] = true
			if body.Deployments == nil || slices.Contains(*body.Deployments, d.Name) {
				sources = append(sources, d)
			}
		}
		if len(sources) == 0 {
			continue
		}
		if pins := pinned(&sources); len(versions(pins)) > 1 {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("deployments"), Input: pins,
				Msg: "flow '" + flow + "' has deployments with several versions in the source: name one of them",
			})
			continue
		}
		version := sources[0].FlowVersion
		for _, d := range to.flows[flow] {
			if d.FlowVersion != version {
				was := d.FlowVersion
				out = append(out, PromotedDeployment{d.Name, sources[0].Name, flow, &was, version, "changed", nil})
			}
		}
		if len(to.flows[flow]) > 0 {
			continue
		}
		for _, d := range sources {
			out = append(out, PromotedDeployment{promotedName(d.Name, body.Source, body.Target), d.Name, flow, nil, version, "added", nil})
		}
	}
	if body.Deployments != nil {
		for i, name := range *body.Deployments {
			if !known[name] || slices.Contains((*body.Deployments)[:i], name) {
				faults = append(faults, errs.Detail{
					Type: "value_error", Loc: errs.Body("deployments", i), Msg: "the source has no such deployment, or it is named twice", Input: name,
				})
			}
		}
	}
	return out, faults
}

// promotedName is the name of a new deployment in the target.
func promotedName(deployment, source, target string) string {
	return strings.TrimSuffix(deployment, "-"+source) + "-" + target
}

// freeNames checks that the new deployments can be made. Errors: errs.Conflict.
func (s *service) freeNames(ctx context.Context, planned []PromotedDeployment) error {
	taken := map[string]bool{}
	for _, p := range planned {
		if p.Action != "added" {
			continue
		}
		if !registry.ValidName(p.DeploymentName) {
			return errs.New(errs.Conflict, "The name '%s' of the new deployment is too long: make it in the target, and promote again", p.DeploymentName)
		}
		_, err := registry.GetDeployment(ctx, s.store.Table, tenant.From(ctx).OrgID, p.DeploymentName)
		switch {
		case err == nil || taken[p.DeploymentName]: //guard:environment/promote-taken drop operand 1
			return errs.New(errs.Conflict, "Deployment '%s' exists already, and not for flow '%s' in the target: make one of it in the target, and promote again",
				p.DeploymentName, p.FlowName)
		case errs.CodeOf(err) != errs.NotFound:
			return err
		}
		taken[p.DeploymentName] = true
	}
	return nil
}

// applyVariables changes the variables, all at once: new versions may need them.
func (s *service) applyVariables(ctx context.Context, plan *EnvironmentPromoteResponse) error {
	if len(plan.Variables) == 0 {
		return nil
	}
	_, err := s.store.ChangeVariables(ctx, plan.Target, "promote", map[string]any{"source": plan.Source}, func(now map[string]registry.Variable) error {
		for _, p := range plan.Variables {
			now[p.Key] = registry.Variable{Value: p.To.Value, Enabled: p.To.Enabled}
		}
		return checkCount(now)
	})
	return err
}

// deploy changes each deployment, or checks that it can be changed if that is all that
// was asked for, and adds the schedules of new ones to the plan.
func (s *service) deploy(ctx context.Context, plan *EnvironmentPromoteResponse, from contents) error {
	change := s.store.Commit
	if plan.DryRun { //guard:environment/promote-dry-run false
		change = s.store.Check
	}
	for i := range plan.Deployments {
		p := &plan.Deployments[i]
		next := func(now *registry.Deployment) (registry.Deployment, error) {
			if now == nil || now.Environment != plan.Target || now.FlowName != p.FlowName { //guard:environment/promote-moved false
				return registry.Deployment{}, errs.New(errs.Conflict, "Deployment '%s' was changed meanwhile: promote again", p.DeploymentName)
			}
			d := *now
			d.FlowVersion = p.ToVersion
			return d, nil
		}
		if p.Action == "added" {
			at := slices.IndexFunc(from.flows[p.FlowName], func(d registry.Deployment) bool { return d.Name == p.SourceDeployment })
			d := from.flows[p.FlowName][at]
			d.Meta, d.Environment = record.Meta{}, plan.Target
			next = func(now *registry.Deployment) (registry.Deployment, error) {
				if now != nil { //guard:environment/promote-made false
					return d, errs.New(errs.Conflict, "Deployment '%s' was made meanwhile: promote again", p.DeploymentName)
				}
				return d, nil
			}
		}
		made, err := change(ctx, registry.Change{Deploy: &registry.Deploy{Name: p.DeploymentName, Action: "promote", Next: next, Chosen: true}})
		if err != nil {
			return err
		}
		if p.Action == "added" {
			p.Schedule = promotedSchedule(made.Schedule)
		}
	}
	return nil
}

// promotedSchedule describes the schedule of a new deployment, nil for none.
func promotedSchedule(made *schedule.Schedule) *PromotedSchedule {
	if made == nil {
		return nil
	}
	return &PromotedSchedule{made.ScheduleID, *made.CronExpression, made.Timezone, made.Enabled, made.NextRunEpoch}
}
