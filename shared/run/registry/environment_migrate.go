package registry

import (
	"context"
	"slices"

	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/secret"
)

// A workspace may be older than environments: its deployments and secrets name some
// that have no record. The first call that misses one makes them all, and then
// default, whose record says that it is done. A new workspace comes to default in
// the same way.

// madeByService stands for the author of an environment that nobody made.
const madeByService = "millrace"

// migrated reports whether the environments of a workspace have their records.
func (s Store) migrated(ctx context.Context) (bool, error) {
	_, found, err := s.environments().Find(ctx, DefaultEnvironment)
	return found, err
}

// migrateOnce is migrate, unless it was done.
func (s Store) migrateOnce(ctx context.Context) error {
	if done, err := s.migrated(ctx); err != nil || done {
		return err
	}
	return s.migrate(ctx)
}

// migrate makes the environments that deployments and secrets name, and default. It
// may be repeated, also after it was cut short.
func (s Store) migrate(ctx context.Context) error {
	return record.Retry(ctx, "the environments", func() error {
		deployments, err := s.deployments().List(ctx, "", 0, func(d *Deployment) bool {
			return d.Environment != DefaultEnvironment
		})
		if err != nil {
			return err
		}
		secrets, err := secret.List(ctx, s.records(), func(x *secret.Secret) bool { return x.Of() != "" })
		if err != nil {
			return err
		}
		var names []string
		for i := range deployments {
			names = append(names, deployments[i].Environment)
		}
		for i := range secrets {
			names = append(names, secrets[i].Of())
		}
		slices.Sort(names)
		for _, name := range append(slices.Compact(names), DefaultEnvironment) {
			if name == DefaultEnvironment {
				if err := s.migrateDeployments(ctx, deployments); err != nil {
					return err
				}
			}
			e := Environment{Name: name}
			e.CreatedBy = madeByService
			set := s.environments()
			set.Limit = "" // they are there
			keep := func(now Environment) (Environment, error) { return now, nil }
			out, writes, _, err := set.Prepare(ctx, name, s.creation(ctx, e, keep))
			if err == nil && out.Changed { // nobody changed anything: it has no audit entry
				err = s.Table.Transact(ctx, writes...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// migrateDeployments writes the dependents that deployments are of their
// environments, if they are as they were read.
func (s Store) migrateDeployments(ctx context.Context, all []Deployment) error {
	const most = table.MaxTransactItems / 2
	for some := range slices.Chunk(all, most) {
		var writes []table.Write
		for _, d := range some {
			writes = append(writes,
				table.Check{Key: d.Key, If: table.Eq("environment", d.Environment)},
				putDependent(environmentPK(d.OrgID, d.Environment), deploymentKind.Type, d.Name, clock.ToMillis(s.Clock.Now())),
			)
		}
		if err := s.Table.Transact(ctx, writes...); err != nil {
			return err
		}
	}
	return nil
}
