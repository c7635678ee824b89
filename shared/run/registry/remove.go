package registry

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/table"
)

// DeleteFlow deletes a flow with all its versions, and makes the further
// writes, in one transaction. Specs and artifacts are kept, because runs refer
// to them. Errors: errs.NotFound; errs.Conflict naming the flow's dependents.
func (s Store) DeleteFlow(ctx context.Context, flow string, also ...table.Write) (Head, error) {
	org := tenantOf(ctx)
	var head Head
	err := retry(ctx, func() (err error) {
		if head, err = GetFlow(ctx, s.Table, org, flow); err != nil {
			return err
		}
		deps, err := Dependents(ctx, s.Table, org, flow, maxNamed+1)
		if err != nil {
			return err
		}
		if len(deps) > 0 {
			return inUse("Flow", flow, deps, "disable or delete them")
		}
		// rev was read before the dependents: a new one has incremented it.
		writes := append([]table.Write{
			table.Delete{Key: head.Key, If: table.And(table.Eq("incarnation", head.Incarnation), table.Eq("rev", head.Rev))},
			audit.Entry(ctx, s.Clock.Now(), audit.Change{
				Action: "delete", ResourceType: "flow", ResourceID: flow, Before: head.View(),
			}),
		}, also...)
		return s.Table.Transact(ctx, writes...)
	})
	if err != nil {
		return Head{}, err
	}
	// Without the head its versions do not exist. The rest only frees storage.
	s.purge(ctx, flowPK(org, flow), versionPrefix, head.Incarnation)
	return head, nil
}

// DeleteDeployment deletes a deployment with its history and the schedule that is
// set on it. Errors: errs.NotFound.
func (s Store) DeleteDeployment(ctx context.Context, name string) error {
	org, set := tenantOf(ctx), s.deployments()
	var dropped []table.Write
	out, err := set.Write(ctx, name, record.Change[Deployment]{
		Next: func(now *Deployment) (Deployment, error) {
			if now == nil {
				return Deployment{}, set.Absent(name)
			}
			var err error
			if dropped, err = s.dropSchedule(ctx, now); err != nil {
				return Deployment{}, err
			}
			return Deployment{}, record.ErrDelete
		},
		Also: func(o record.Outcome[Deployment]) []table.Write {
			release := ReleaseEnvironment(org, o.Before.Environment, deploymentKind.Type, name)
			if o.Before.Status == Active {
				release = append(release, Release(org, o.Before.FlowName, deploymentKind.Type, name))
			}
			return append(release, dropped...)
		},
	})
	if err == nil {
		s.purge(ctx, historyPK(org, name), "", out.Before.Incarnation)
	}
	return err
}

// purge deletes the items of a deleted incarnation. Each delete is conditional,
// because the name may be in use again. Items left by a failure are invisible,
// and overwritten when the same version is created again, so the failure is
// only logged.
func (s Store) purge(ctx context.Context, pk, prefix, incarnation string) {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	dead := table.Eq("incarnation", incarnation)
	q := table.Query{PK: pk, Range: table.Prefix(prefix), Filter: dead, Consistent: true}
	var failed error
	for item, err := range table.All(gctx, s.Table, q) {
		if err != nil {
			failed = err
			break
		}
		group.Go(func() error {
			err := s.Table.Delete(gctx, table.Delete{Key: item.Key(), If: dead})
			if errors.Is(err, table.ErrConditionFailed) {
				return nil
			}
			return err
		})
	}
	if err := errors.Join(failed, group.Wait()); err != nil {
		s.log().WarnContext(ctx, "deleted items were left behind", "partition", pk, "error", err)
	}
}

func tenantOf(ctx context.Context) string { return tenant.From(ctx).OrgID }

func actorOf(ctx context.Context) string { return tenant.From(ctx).Actor() }
