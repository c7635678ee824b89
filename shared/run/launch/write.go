package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/shared/account/audit"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/runstate"
	"millrace/shared/run/tier"
)

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
