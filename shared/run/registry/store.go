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
)

// Store changes what is registered. The workspace and the actor are those of
// the context's principal.
type Store struct {
	Table table.Table
	Blob  blob.Store
	Clock clock.Clock
	Log   *slog.Logger   // nil: slog.Default
	Quota *quota.Quota   // nil: nothing is limited
	Kinds flowspec.Kinds // of the deployment's tasks, for Registration.Kinds; nil: tasktype.Kinds
}

func (s Store) log() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

// Change is what one call does to the registry, as one transaction with one
// audit entry. At least one of Register and Deploy is set.
type Change struct {
	Register *Registration // nil: no version is registered
	Deploy   *Deploy       // nil: no deployment is changed
	// Also gives further writes for the transaction; if one of their conditions
	// does not hold, Commit returns ErrStale. With it the transaction is written
	// even if neither version nor deployment changes.
	Also func(Outcome) []table.Write
	// Audit describes the change; nil: the change of its deployment.
	Audit func(Outcome) audit.Change
}

// Outcome is what a Commit came to.
type Outcome struct {
	Version    Version     // registered, or that of the deployment
	Registered bool        // Version is new
	Latest     string      // the flow's latest version afterwards
	Deployment *Deployment // as it is now; nil without Deploy
	Before     *Deployment // as it was; nil if it is new
	Deployed   bool        // Deployment is changed or new
}

// ErrStale says that a condition of Change.Also did not hold.
var ErrStale = errors.New("registry: a further write's condition did not hold")

// Commit makes the change. A registration of what is registered with the same
// content, and a deployment that stays the same, change nothing. Errors: those
// of the change's parts; errs.Conflict if others kept changing the same names;
// errs.TooMany if the workspace may have no more flows, versions or deployments.
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
	p := plan{Store: s, ctx: ctx, org: tenant.From(ctx).OrgID, actor: tenant.From(ctx).Actor(), now: s.Clock.Now()}
	if c.Register != nil {
		if err := p.register(c.Register); err != nil {
			return Outcome{}, err
		}
	}
	if c.Deploy != nil {
		if err := p.deploy(c.Deploy); err != nil {
			return Outcome{}, err
		}
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
	err := s.Table.Transact(ctx, p.writes...)
	if failed, ok := errors.AsType[*table.TransactionError](err); ok {
		for i := also; i < end; i++ {
			if _, stale := failed.Failed(i); stale {
				return Outcome{}, ErrStale
			}
		}
	}
	return p.out, err
}

// plan collects the writes of one attempt.
type plan struct {
	Store
	ctx    context.Context
	org    string
	actor  string
	now    time.Time
	writes []table.Write
	entry  audit.Change // of the deployment's change
	out    Outcome
	head   *Head // of the flow just registered, as it will be
}

func (p *plan) add(writes ...table.Write) { p.writes = append(p.writes, writes...) }

// retry calls do until others no longer get in its way.
func retry(ctx context.Context, do func() error) error {
	return record.Retry(ctx, "the same names", do)
}

// room takes room for one more of a partition's items. What comes to nothing is
// given back when they are counted anew.
func (p *plan) room(name quota.Name, partition string) error {
	return p.Quota.Take(p.ctx, name, p.org, 1, func(ctx context.Context) (int64, error) {
		return table.Count(ctx, p.Table, table.Query{PK: partition, Only: []string{"incarnation"}, Consistent: true})
	})
}
