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
	"log/slog"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
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

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
