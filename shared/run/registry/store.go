package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/schedule"
	"millrace/shared/run/tier"
)

// Store changes the registry. The workspace and the actor are those of the
// context's principal.
type Store struct {
	Table table.Table
	Blob  blob.Store
	Clock clock.Clock
	Log   *slog.Logger   // nil: slog.Default
	Quota *quota.Quota   // nil: no limits
	Kinds flowspec.Kinds // of the deployment's tasks, for Registration.Kinds; nil: tasktype.Kinds
	Tiers tier.Set       // that the deployment has
}

func (s Store) log() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

// Change is a change of the registry, made in one transaction with one audit
// entry. At least one of Register and Deploy is set.
type Change struct {
	Register *Registration // nil: no version is registered
	Deploy   *Deploy       // nil: no deployment is changed
	// Also returns further writes for the transaction. If a condition of theirs
	// fails, Commit returns ErrStale. If Also is set the transaction is written
	// even if neither version nor deployment changes.
	Also func(Outcome) []table.Write
	// Audit describes the change; nil: the change of the deployment.
	Audit func(Outcome) audit.Change
}

// Outcome is the result of a Commit.
type Outcome struct {
	Version    Version     // the registered version, or that of the deployment
	Registered bool        // Version is new
	Latest     string      // the flow's latest version afterwards
	Deployment *Deployment // after the change; nil without Deploy
	Before     *Deployment // before the change; nil if it is new
	Deployed   bool        // Deployment was changed or is new
	// NewEnvironment is set if the deployment's environment was created for it.
	NewEnvironment bool
	// Schedule is the schedule set on the deployment; nil if it has none.
	Schedule *schedule.Schedule
}

// NextRun returns the Unix second of the next run of the deployment's schedule, nil
// if there is none.
func (o *Outcome) NextRun() *int64 {
	if o.Schedule == nil {
		return nil
	}
	return o.Schedule.NextRunEpoch
}

// ErrStale means that a condition of Change.Also failed.
var ErrStale = errors.New("registry: a further write's condition did not hold")

// Commit makes the change. A registration of a registered version with the same
// content, and a deployment that stays the same, change nothing. Errors: those
// of the change's parts; errs.Conflict if others kept changing the same names;
// errs.TooMany if the workspace has reached its limit of flows, versions or
// deployments.
func (s Store) Commit(ctx context.Context, c Change) (Outcome, error) {
	if c.Register != nil {
		if err := c.Register.store(ctx, s); err != nil {
			return Outcome{}, err
		}
	}
	var out Outcome
	err := retry(ctx, func() error {
		var err error
		out, err = s.commit(ctx, c)
		return err
	})
	return out, err
}

func (s Store) commit(ctx context.Context, c Change) (Outcome, error) {
	p, err := s.plan(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	also := len(p.writes)
	if c.Also != nil {
		p.writes = append(p.writes, c.Also(p.out)...)
	}
	if len(p.writes) == 0 {
		return p.out, nil
	}
	end := len(p.writes)
	if c.Audit != nil {
		p.entry = c.Audit(p.out)
	}
	p.writes = append(p.writes, audit.Entry(ctx, p.now, p.entry))
	err = s.Table.Transact(ctx, p.writes...)
	if failed, ok := errors.AsType[*table.TransactionError](err); ok {
		for i := also; i < end; i++ {
			if _, stale := failed.Failed(i); stale {
				return Outcome{}, ErrStale
			}
		}
	}
	return p.out, err
}

// Check returns what a change would result in, and makes none. Errors: those of
// Commit, but for limits: it takes no room.
func (s Store) Check(ctx context.Context, c Change) (Outcome, error) {
	s.Quota = nil
	var out Outcome
	err := retry(ctx, func() error {
		p, err := s.plan(ctx, c)
		out = p.out
		return err
	})
	return out, err
}

// plan plans the writes of a change.
func (s Store) plan(ctx context.Context, c Change) (*plan, error) {
	p := &plan{Store: s, ctx: ctx, org: tenant.From(ctx).OrgID, actor: tenant.From(ctx).Actor(), now: s.Clock.Now()}
	if c.Register != nil {
		if err := p.register(c.Register); err != nil {
			return p, err
		}
	}
	if c.Deploy == nil {
		return p, nil
	}
	return p, p.deploy(c.Deploy)
}

// plan collects the writes of one attempt.
type plan struct {
	Store
	ctx    context.Context
	org    string
	actor  string
	now    time.Time
	writes []table.Write
	entry  audit.Change // the audit entry of the deployment's change
	out    Outcome
	head   *Head          // the flow's head after the registration
	parsed *flowspec.Flow // of the registration; nil: there is none
}

// flow returns the flow of the outcome's version. That of a registration need not be
// stored yet.
func (p *plan) flow() (*flowspec.Flow, error) {
	if p.parsed != nil && p.parsed.Hash() == p.out.Version.SpecHash {
		return p.parsed, nil
	}
	return LoadFlow(p.ctx, p.Table, p.Blob, p.org, p.out.Version.SpecHash)
}

func (p *plan) add(writes ...table.Write) { p.writes = append(p.writes, writes...) }

// retry calls do until it does not conflict with concurrent changes.
func retry(ctx context.Context, do func() error) error {
	return record.Retry(ctx, "the same names", do)
}

// room reserves quota for one more item of a partition. Reservations that are
// not used are released when the items are counted again.
func (p *plan) room(name quota.Name, partition string) error {
	return p.Quota.Take(p.ctx, name, p.org, 1, func(ctx context.Context) (int64, error) {
		return table.Count(ctx, p.Table, table.Query{PK: partition, Only: []string{"incarnation"}, Consistent: true})
	})
}
