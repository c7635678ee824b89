// Package launch accepts and stops runs. All runs are created by it, whether by
// hand, schedule, sensor, retry or backfill. It resolves and checks what is to
// run, records everything that the run will see, and writes run and audit entry
// in one transaction before it sends the run to the workers.
package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/budget"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/tier"
)

// Sources of runs.
const (
	Manual   = "manual"
	Schedule = "schedule"
	Sensor   = "sensor"
	Retry    = "retry"
	Backfill = "backfill"
	SubFlow  = "flow"
)

// Limits of a request.
const (
	KeyLifetime = 24 * time.Hour // lifetime of an idempotency key
	MaxKey      = 255
)

const (
	// firstLook is the time until a run whose message is lost is reconciled.
	firstLook = time.Minute
	// sendTimeout is the timeout for sending a message.
	sendTimeout = 10 * time.Second
)

// Launcher accepts and stops runs.
type Launcher struct {
	Table  table.Table
	Queues queue.Queues
	Blob   blob.Store
	Clock  clock.Clock
	Log    *slog.Logger
	Broker *notify.Broker
	Quota  *quota.Quota // nil: no limits
	// Metrics counts the runs; nil: no metrics.
	Metrics *telemetry.Metrics
	Spans   *telemetry.Spans // of accepted runs; nil: none
	Counter *RunCounter      // shared by all launchers of a process; nil: each has its own
	Tiers   tier.Set         // that the deployment has
}

// Request is a run to accept. Deployment takes precedence over Flow and
// Version.
type Request struct {
	Deployment    string
	Flow, Version string
	Environment   string                     // "" inherits the deployment's, else default
	Mode          string                     // "" inherits the deployment's, else the flow version's
	Parameters    map[string]json.RawMessage // as the caller gave them
	Injected      map[string]json.RawMessage // set by the service where the caller did not; the flow's schema need not know them
	Offered       map[string]json.RawMessage // of an event, over Parameters; see flowspec.Flow.Known for those that are dropped
	Trigger       string
	LogicalDate   string // of the occurrence, in RFC 3339
	Key           string // idempotency key; "": none
	Fingerprint   string // of the request with Key
	// Occurrence is set if the run belongs to one. It takes precedence over
	// Trigger, and excludes a Key.
	Occurrence *Occurrence
}

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

// Accept creates a run. If an equal request with the same idempotency key was
// accepted before, or a request of the same occurrence, it returns that run,
// whatever has become of what the request names. The run of an occurrence is
// returned as it is now. Errors: errs.Invalid if the request names nothing to
// run; errs.NotFound for an unknown deployment or flow version;
// errs.Unprocessable for invalid parameters, an unknown environment, or an
// idempotency key used for another request; errs.Conflict for an inactive
// deployment; errs.TooMany for a workspace that has reached a limit.
func (l *Launcher) Accept(ctx context.Context, org string, req Request) (runstate.Run, error) {
	if faults := registry.CheckParameters(errs.Body("parameters"), req.Parameters); len(faults) > 0 {
		return runstate.Run{}, errs.Validation(faults...)
	}
	if req.Occurrence != nil {
		return l.acceptOccurrence(ctx, org, req)
	}
	known, err := l.uses(ctx, org, req.Key)
	if err != nil {
		return runstate.Run{}, err
	}
	if first, err := l.replay(ctx, org, req.Fingerprint, known); err != nil || first != nil { //guard:accept/replay drop operand 2
		return deref(first), err
	}
	p, err := l.resolve(ctx, org, req)
	if err != nil {
		return runstate.Run{}, err
	}
	if req.Key != "" {
		if err := known.free(p.run.Flow); err != nil {
			return runstate.Run{}, err
		}
		p.key, p.idem = req.Key, l.use(&req, &p.run)
	}
	return l.write(ctx, p)
}

// Check refuses what Accept would refuse now, and returns the flow that would run.
// Errors: those of Accept but for limits.
func (l *Launcher) Check(ctx context.Context, org string, req Request) (flow string, err error) {
	if faults := registry.CheckParameters(errs.Body("parameters"), req.Parameters); len(faults) > 0 {
		return "", errs.Validation(faults...)
	}
	p, err := l.resolve(ctx, org, req)
	if err != nil {
		return "", err
	}
	return p.run.Flow, nil
}

// acceptOccurrence is Accept of a run that stands for something.
func (l *Launcher) acceptOccurrence(ctx context.Context, org string, req Request) (runstate.Run, error) {
	taken, metadata, err := req.Occurrence.item(org)
	if err == nil && req.Key != "" {
		err = errs.New(errs.Invalid, "A run of a %s has no idempotency key", req.Occurrence.Kind)
	}
	if err != nil {
		return runstate.Run{}, err
	}
	if taken != nil {
		if run, err := l.made(ctx, org, taken); err != nil || run != nil {
			return deref(run), err
		}
	}
	req.Trigger = req.Occurrence.Kind
	if req.LogicalDate == "" {
		req.LogicalDate = clock.Format(req.Occurrence.Instant)
	}
	p, err := l.resolve(ctx, org, req)
	if err != nil {
		return runstate.Run{}, err
	}
	if taken != nil {
		taken.Run, taken.Expires = p.run.ID, req.Occurrence.expires(l.Quota, p.run.Org, l.Clock.Now())
	}
	if p.run.By == "" {
		p.run.By = req.Occurrence.Kind + ":" + req.Occurrence.ID
	}
	p.occurrence, p.audit.Metadata = taken, metadata
	return l.write(ctx, p)
}

func deref(r *runstate.Run) runstate.Run {
	if r == nil {
		return runstate.Run{}
	}
	return *r
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

// write stores the run and sends it to the workers.
func (l *Launcher) write(ctx context.Context, p *plan) (runstate.Run, error) {
	if mode := tier.Tier(p.run.Mode); !l.Tiers.Has(mode) {
		return runstate.Run{}, errs.New(errs.Conflict, "The runtime tier %s: set another execution_mode", l.Tiers.Lacks(mode))
	}
	if err := l.admit(ctx, &p.run); err != nil { //guard:limit/runs false
		return runstate.Run{}, err
	}
	began, span := l.Clock.Now(), l.traceOf(ctx)
	p.input.Trace = span.String()
	input, err := runstate.StoreInput(ctx, l.Blob, p.run.Org, p.run.ID, &p.input)
	if err != nil {
		return runstate.Run{}, err
	}
	input.Expires = runstate.Expiry(l.Quota, p.run.Org, l.Clock.Now())
	p.audit.ResourceType, p.audit.ResourceID, p.audit.After = "run", p.run.ID, snapshot(&p.run)
	writes := []table.Write{
		table.Put{Item: p.run, If: table.IsNew()}, //guard:accept/new drop field If
		table.Put{Item: input, If: table.IsNew()},
		//guard:accept/audit hoist if err := l.Table.Put(ctx, _); err != nil { return runstate.Run{}, err }
		audit.EntryFor(ctx, p.run.Org, l.Clock.Now(), p.audit),
	}
	p.envAt = len(writes)
	writes = append(writes, p.env.Accept(p.run.ID, 0)...)
	if p.idem != nil {
		writes = append(writes,
			//guard:accept/key-in-transaction hoist if err := l.Table.Put(ctx, _); err != nil { return runstate.Run{}, err }
			l.put(p.idem),
		)
	}
	if p.occurrence != nil {
		writes = append(writes,
			//guard:accept/occurrence-in-transaction hoist if err := l.Table.Put(ctx, _); err != nil { return runstate.Run{}, err }
			table.Put{Item: *p.occurrence, If: l.free()}, //guard:accept/occurrence drop field If
		)
	}
	made, err := l.commit(table.SyncLater(ctx), p, writes) // the message follows
	if made != nil {
		return *made, nil
	}
	if p.gone(err) {
		return runstate.Run{}, p.env.Gone()
	}
	if p.idem != nil && taken(err, len(writes)) { //guard:accept/raced false
		return l.raced(ctx, p)
	}
	if p.idem != nil && errors.Is(err, table.ErrConflict) {
		return runstate.Run{}, beingAccepted(err)
	}
	if err != nil {
		return runstate.Run{}, fmt.Errorf("accept run: %w", err)
	}
	l.Metrics.Count(telemetry.RunsAccepted, telemetry.Dimensions{Tier: p.run.Mode})
	l.Spans.Add(telemetry.Span{
		Trace: span, Parent: telemetry.From(ctx).Trace, Name: "accept run", Kind: telemetry.Internal, Start: began, End: l.Clock.Now(),
		Attrs: p.run.SpanAttrs(),
	})
	if !l.dispatch(ctx, &p.run, p.input.Trace) { //guard:accept/unsent false
		_, _ = l.Table.Get(context.WithoutCancel(ctx), p.run.Key) // see table.SyncLater
	}
	return p.run, nil
}

// traceOf returns the trace of a new run: that of the request, or a new one. It
// is stored in the run's input, not in the record, which is written often and
// near a kilobyte. If spans are exported, its span is that of the acceptance.
func (l *Launcher) traceOf(ctx context.Context) telemetry.Trace {
	trace := telemetry.From(ctx).Trace
	switch {
	case trace.IsZero():
		return telemetry.NewTrace()
	case l.Spans != nil:
		return trace.Child()
	}
	return trace
}

// dispatch sends the run to the workers. If it returns false, which it logs, the
// run is accepted nevertheless: the due index brings it up.
func (l *Launcher) dispatch(ctx context.Context, run *runstate.Run, trace string) bool {
	return l.send(ctx, events.Tasks(run.Mode), events.Run{Kind: events.RunStart, Org: run.Org, Run: run.ID, Timeout: &run.Timeout, Trace: trace})
}

// send sends a message even if the caller's context has ended, because what the
// message refers to is written.
func (l *Launcher) send(ctx context.Context, to string, m events.Run) bool {
	body, err := json.Marshal(m)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout) //guard:accept/send arg 1 ctx
		defer cancel()
		err = l.Queues.Send(ctx, to, queue.Message{Body: body, Group: m.Org}) //guard:tenant/first-message field Group "org"
	}
	if err != nil {
		l.Log.ErrorContext(ctx, "message of a run not sent, a reconciliation makes up for it", "run_id", m.Run, "kind", m.Kind, "error", err)
	}
	return err == nil
}

// snapshot returns a run as audit entries show it.
func snapshot(r *runstate.Run) map[string]any {
	out := map[string]any{
		"run_id": r.ID, "run_slug": r.Slug, "flow_name": r.Flow, "flow_version": r.Version, "status": r.Status,
		"environment": r.Environment, "execution_mode": r.Mode, "trigger_source": r.Trigger,
	}
	if r.Deployment != "" {
		out["deployment"] = r.Deployment
	}
	if r.Parent != "" {
		out["parent_run_id"] = r.Parent
	}
	return out
}

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

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
