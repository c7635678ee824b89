package launch

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// plan is a resolved and checked run, ready to be written.
type plan struct {
	run   runstate.Run
	input runstate.Input
	env   registry.RunEnvironment
	envAt int // of the environment's write in the transaction
	audit audit.Change
	key   string // the idempotency key
	idem  *idempotency

	occurrence *occurrence
}

// resolve reads what is to run and checks the parameters against it.
func (l *Launcher) resolve(ctx context.Context, org string, req Request) (*plan, error) {
	params, modeGiven := req.Parameters, req.Mode != ""
	if req.Deployment != "" {
		d, err := registry.GetDeployment(ctx, l.Table, org, req.Deployment)
		if err != nil {
			return nil, err
		}
		if d.Status != registry.Active {
			return nil, errs.New(errs.Conflict, "Deployment %s is %s and starts no runs", d.Name, d.Status)
		}
		req.Flow, req.Version = d.FlowName, d.FlowVersion
		if req.Environment == "" {
			req.Environment = d.Environment
		}
		if req.Mode == "" {
			req.Mode = d.ExecutionMode
		}
		params = merge(d.Parameters, params)
	}
	if req.Flow == "" || req.Version == "" {
		return nil, errs.New(errs.Invalid, "Either deployment, or both flow_name and flow_version, must be given")
	}
	if req.Environment == "" {
		req.Environment = registry.DefaultEnvironment
	}
	v, vars, err := registry.GetVersionIn(ctx, l.Table, org, req.Flow, req.Version, req.Environment)
	if err != nil {
		return nil, err
	}
	if req.Mode == "" {
		req.Mode = v.ExecutionMode
	}
	flow, err := registry.LoadFlow(ctx, l.Table, l.Blob, org, v.SpecHash)
	if err != nil {
		return nil, fmt.Errorf("load flow %s %s: %w", v.FlowName, v.FlowVersion, err)
	}
	if len(req.Offered) > 0 {
		if params, err = offered(ctx, flow, params, req.Offered); err != nil {
			return nil, err
		}
	}
	injected := func(key string) bool {
		_, set := req.Injected[key]
		_, given := params[key]
		return set && !given // a caller's value is checked as any other
	}
	whole, err := checked(ctx, flow, merge(req.Injected, params), injected)
	if err != nil {
		return nil, err
	}
	env, err := l.registry().RunEnvironment(ctx, org, req.Environment, vars)
	if err != nil {
		return nil, err
	}
	run := l.record(ctx, org, v, req.Environment, req.Mode, req.Trigger)
	run.Deployment, run.Timeout, run.ModeGiven = req.Deployment, flow.TimeoutSecs, modeGiven
	if req.LogicalDate == "" {
		req.LogicalDate = run.CreatedAt.String()
	}
	return &plan{
		run:   run,
		input: runstate.Input{Parameters: whole, LogicalDate: req.LogicalDate, Vars: env.Vars},
		env:   env,
		audit: audit.Change{Action: "create"},
	}, nil
}

// offered returns the parameters of a run with those of an event that its flow
// knows. Errors: errs.Unprocessable.
func offered(ctx context.Context, flow *flowspec.Flow, params, event map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	known, err := flow.Known(ctx, event)
	if err != nil {
		return nil, err
	}
	params = merge(params, known)
	if faults := registry.CheckParameters(errs.Body("parameters"), params); len(faults) > 0 {
		return nil, errs.Validation(faults...)
	}
	return params, nil
}

// registry returns the store of environments.
func (l *Launcher) registry() registry.Store {
	return registry.Store{Table: l.Table, Blob: l.Blob, Clock: l.Clock, Log: l.Log, Quota: l.Quota}
}

// checked returns the parameters of a run with their defaults. Errors:
// errs.Unprocessable for parameters that violate the flow's schema; the cause
// of an ended ctx.
func checked(ctx context.Context, flow *flowspec.Flow, params map[string]json.RawMessage, injected func(key string) bool) (map[string]json.RawMessage, error) {
	checking, end := budget.WithWaitLimit(ctx)
	defer end()
	params, faults := flow.CheckParams(checking, params, injected)
	if err := context.Cause(checking); err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, errs.Validation(faults...)
	}
	return params, nil
}

// record returns the record of a new run of a flow version.
func (l *Launcher) record(ctx context.Context, org string, v registry.Version, env, mode, trigger string) runstate.Run {
	now := l.Clock.Now()
	id := ids.New(now)
	return runstate.Run{
		Key:         runstate.RunKey(org, id),
		DueEntry:    runstate.DueAt(org, id, v.TaskCount, now.Add(firstLook)), //guard:accept/due arg 4.1 10000 * firstLook
		ListEntries: runstate.Lists(org, v.FlowName, env, id),
		Org:         org, ID: id, Slug: ids.SlugOf(id), Flow: v.FlowName, Version: v.FlowVersion,
		SpecHash: v.SpecHash, Plan: engine.PlanVersion, Artifact: v.ArtifactKey, CodeHash: v.CodeHash,
		Environment: env, Mode: mode, Trigger: trigger, By: actor(ctx), Tasks: v.TaskCount,
		Status: engine.Queued, CreatedAt: clock.ToMillis(now),
	}
}

// actor returns the actor of a run: a user's email, or a key's id.
func actor(ctx context.Context) string { return tenant.From(ctx).Actor() }

// merge returns the union of both, in which over takes precedence.
func merge(under, over map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(under)+len(over))
	for _, m := range []map[string]json.RawMessage{under, over} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
