package flows

import (
	"context"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

// checkDeployment checks what the request itself tells of the deployment. Errors:
// errs.Unprocessable.
func (in *FlowRegisterRequest) checkDeployment() error {
	var faults []errs.Detail
	given := func(name string, value *string, needs bool, msg string) {
		if value != nil && !needs {
			faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body(name), Msg: msg, Input: *value})
		}
	}
	given("deployment_name", in.DeploymentName, in.DryRun, "only a dry_run checks a deployment: make one with POST /deployments")
	for name, value := range map[string]*string{"environment": in.Environment, "schedule": in.Schedule, "timezone": in.Timezone} {
		given(name, value, in.DeploymentName != nil, "it is of a deployment: deployment_name is missing")
	}
	if faults = append(faults, registry.CheckSchedule(in.Schedule, in.Timezone)...); len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}

// check checks a registration and a deployment of it, and stores nothing. Errors:
// those of register, and those of the deployment: errs.Conflict,
// errs.Unprocessable.
func (s *service) check(ctx context.Context, in *FlowRegisterRequest, reg *registry.Registration) (FlowRegisterResponse, error) {
	change := registry.Change{Register: reg}
	if in.DeploymentName != nil {
		change.Deploy = &registry.Deploy{Name: *in.DeploymentName, Next: reg.Deployment(registry.Settings{
			Environment: in.Environment, Schedule: in.Schedule, Timezone: in.Timezone,
			ExecutionMode: in.ExecutionMode, DefaultExecutor: in.DefaultExecutor,
		})}
	}
	planned, err := s.store.Check(ctx, change)
	if err != nil {
		return FlowRegisterResponse{}, err
	}
	out := FlowRegisterResponse{VersionView: planned.Version.View(), DryRun: true}
	if d := planned.Deployment; d != nil {
		out.Deployment = &PlannedDeployment{
			DeploymentName: d.Name, DeploymentVersion: d.DeploymentVersion, Environment: d.Environment,
			EnvironmentCreated: planned.NewEnvironment, NextRunEpoch: planned.NextRun(),
		}
	}
	return out, nil
}
