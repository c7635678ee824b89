package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/run/secret"
)

// deletion marks the name of a deleted environment until its secrets are deleted.
// Nobody sees them from then on, and the name is not free again before.
type deletion struct {
	table.Key
}

func deletedPK(org string) string { return org + "#environments-deleted" }

func deletedKey(org, name string) table.Key { return table.Key{PK: deletedPK(org), SK: name} }

// DeleteEnvironment deletes an environment with its variables and secrets. Errors:
// errs.NotFound; errs.Conflict for default, and for one in use, naming the
// deployments and unfinished runs that are in it.
func (s Store) DeleteEnvironment(ctx context.Context, name string) (Environment, error) {
	org, set := tenantOf(ctx), s.environments()
	if name == DefaultEnvironment { //guard:environment/default false
		return Environment{}, errs.New(errs.Conflict, "Environment '%s' cannot be deleted: it takes what names no environment", name)
	}
	if err := s.migrateOnce(ctx); err != nil { // what is in it may not have been told
		return Environment{}, err
	}
	var last []lastRun
	var object string
	out, err := set.Write(ctx, name, record.Change[Environment]{
		Next: func(now *Environment) (Environment, error) {
			if now == nil {
				if err := s.purgeLeft(ctx, name); err != nil {
					return Environment{}, err
				}
				return Environment{}, set.Absent(name)
			}
			deps, err := dependents(ctx, s.Table, environmentPK(org, name), maxNamed+1)
			if err != nil {
				return *now, err
			}
			// These are read before the runs: one that comes later changes them.
			if last, err = lastRuns(ctx, s.Table, org, name); err != nil {
				return *now, err
			}
			runs, err := s.unfinishedRuns(ctx, name, last, maxNamed+1)
			if err != nil {
				return *now, err
			}
			//guard:environment/runs-in-use arg 2 deps[:0]
			if deps = append(deps, runs...); len(deps) > 0 { //guard:environment/in-use false
				return *now, inUse("Environment", name, deps, "move or delete its deployments, disable its schedules, and cancel its runs or wait for them")
			}
			held, err := table.Load[VariableSet](ctx, s.Table, variablesKey(org, name), table.Consistent)
			if err != nil && !errors.Is(err, table.ErrNotFound) {
				return *now, fmt.Errorf("read variables of %s: %w", name, err)
			}
			object = held.ObjectKey
			return *now, record.ErrDelete
		},
		Also: func(o record.Outcome[Environment]) []table.Write {
			writes := []table.Write{
				table.Delete{Key: variablesKey(org, name)},
				table.Put{Item: deletion{deletedKey(org, name)}}, //guard:environment/deletion-marked drop
			}
			for _, d := range last {
				writes = append(writes, d.end(o.Before.Incarnation, s.Clock.Now()))
			}
			return writes
		},
	})
	if err != nil {
		return out.Before, err
	}
	s.dropObject(ctx, object)
	return out.Before, s.purgeSecrets(ctx, name)
}

// unfinishedRuns returns runs of an environment that have not ended, at most limit,
// as its dependents. The due index has them all, if late; the last runs are those
// that it may not have yet.
func (s Store) unfinishedRuns(ctx context.Context, environment string, last []lastRun, limit int) ([]Dependent, error) {
	org, live := tenantOf(ctx), map[string]bool{}
	for _, d := range last {
		if d.Run != "" {
			live[d.Run] = true
		}
	}
	for shard := range runstate.DueShards {
		for item, err := range table.All(ctx, s.Table, table.Query{Index: table.Due, PK: runstate.DuePartition(shard)}) {
			if err != nil {
				return nil, fmt.Errorf("list live runs: %w", err)
			}
			if of, run, ok := runstate.ParseRunKey(item.Key().PK); ok && of == org {
				live[run] = true
			}
		}
	}
	var out []Dependent
	for some := range slices.Chunk(slices.Sorted(maps.Keys(live)), table.MaxBatchGet) {
		keys := make([]table.Key, len(some))
		for i, run := range some {
			keys[i] = runstate.RunKey(org, run)
		}
		runs, err := loadAll[runstate.Run](ctx, s.Table, keys)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			//guard:environment/runs-elsewhere drop operand 1
			if run.Environment == environment && !run.Status.RunEnded() { //guard:environment/runs-ended drop operand 2
				out = append(out, Dependent{Kind: "run", ID: run.Slug})
			}
		}
		if len(out) >= limit {
			return out[:limit], nil
		}
	}
	return out, nil
}

// DeletedEnvironments are the names of deleted environments whose secrets are not
// all deleted yet.
func (s Store) DeletedEnvironments(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for item, err := range table.All(ctx, s.Table, table.Query{PK: deletedPK(tenantOf(ctx)), Consistent: true}) {
		if err != nil {
			return nil, fmt.Errorf("list deleted environments: %w", err)
		}
		out[item.Key().SK] = true
	}
	return out, nil
}

// purgeLeft is purgeSecrets of an environment whose deletion was cut short.
func (s Store) purgeLeft(ctx context.Context, name string) error {
	_, left, err := load[deletion](ctx, s.Table, deletedKey(tenantOf(ctx), name))
	if err != nil || !left {
		return err
	}
	return s.purgeSecrets(ctx, name)
}

// purgeSecrets deletes the secrets of a deleted environment, and then the mark that they
// were to be deleted. Each goes only as it was read, for a purgeSecrets that is slow may
// meet those of a new environment of the name.
func (s Store) purgeSecrets(ctx context.Context, name string) error {
	org := tenantOf(ctx)
	all, err := secret.List(ctx, s.records(), func(x *secret.Secret) bool { return x.Of() == name })
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, x := range all {
		group.Go(func() error {
			as := table.Eq("revision", x.Revision)
			if x.Revision.Kind() == table.None {
				as = table.Absent("revision")
			}
			err := s.Table.Delete(gctx, table.Delete{Key: x.Key, If: as}) //guard:environment/secret-as-read arg 2 table.Delete{Key: x.Key}
			if errors.Is(err, table.ErrConditionFailed) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("delete secrets of environment %s: %w", name, err)
	}
	if err := s.Table.Delete(ctx, table.Delete{Key: deletedKey(org, name)}); err != nil {
		return fmt.Errorf("delete environment %s: %w", name, err)
	}
	return nil
}
