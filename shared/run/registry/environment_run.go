package registry

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// lastRun is the run that was accepted last in an environment, by shard. The
// transaction that accepts a run writes one of the shards, and that which deletes the
// environment all of them, so that a deletion overlooks no run and no run is accepted
// after it. Transactions on one item hinder each other, hence the shards. The
// environment default, which cannot be deleted, has none.
type lastRun struct {
	table.Key
	Run     string `table:"run,omitempty"`
	Deleted string `table:"deleted,omitempty"` // the incarnation that was deleted
	Expires int64  `table:"ttl,omitempty"`     // Unix second
}

const (
	lastRunShards = 16
	// deletedFor is how long it is known that an incarnation was deleted: longer than
	// any request lasts that read it before.
	deletedFor = 24 * time.Hour
)

func lastRunKey(org, environment string, shard int) table.Key {
	return table.Key{PK: environmentPK(org, environment), SK: fmt.Sprintf("last#%02d", shard)}
}

// lastRuns returns all shards, also those that are not stored.
func lastRuns(ctx context.Context, t table.Table, org, environment string) ([]lastRun, error) {
	keys, out := make([]table.Key, lastRunShards), make([]lastRun, lastRunShards)
	for n := range keys {
		keys[n] = lastRunKey(org, environment, n)
		out[n].Key = keys[n]
	}
	stored, err := loadAll[lastRun](ctx, t, keys)
	for _, l := range stored {
		for n := range out {
			if out[n].Key == l.Key {
				out[n] = l
			}
		}
	}
	return out, err
}

// end returns the write that lets no more runs in, unless one came since the shard
// was read.
func (l lastRun) end(incarnation string, now time.Time) table.Write {
	same := table.Absent("run")
	if l.Run != "" {
		same = table.Eq("run", l.Run)
	}
	//guard:environment/run-meanwhile drop field If
	return table.Put{Item: lastRun{Key: l.Key, Deleted: incarnation, Expires: now.Add(deletedFor).Unix()}, If: same}
}

// RunEnvironment is an environment as a run sees it that is being accepted.
type RunEnvironment struct {
	Vars                   map[string]string // the enabled variables
	org, name, incarnation string
}

// RunEnvironment resolves the environment of a new run, whose variables
// [GetVersionIn] found. Errors: errs.Unprocessable for an unknown environment.
func (s Store) RunEnvironment(ctx context.Context, org, name string, found *VariableSet) (RunEnvironment, error) {
	e := RunEnvironment{org: org, name: name}
	if found == nil {
		if name == DefaultEnvironment {
			return e, nil
		}
		who := tenant.From(ctx)
		who.OrgID = org
		if err := s.migrateOnce(tenant.With(ctx, who)); err != nil {
			return e, err
		}
	}
	const tries = 3
	for try := 1; ; try++ {
		if found == nil {
			now, stored, err := load[VariableSet](ctx, s.Table, variablesKey(org, name))
			if err != nil {
				return e, err
			}
			if !stored {
				return e, e.Gone()
			}
			found = &now
		}
		all, err := s.load(ctx, found)
		if errors.Is(err, blob.ErrNotFound) && try < tries {
			found = nil // they were changed meanwhile
			continue
		}
		if err != nil {
			return e, err
		}
		e.incarnation = found.Incarnation
		for _, v := range all {
			if !v.Enabled { //guard:environment/disabled false
				continue
			}
			if e.Vars == nil {
				e.Vars = map[string]string{}
			}
			e.Vars[v.Key] = v.Value
		}
		return e, nil
	}
}

// Accept returns the writes that the transaction that accepts a run needs, at most
// one: it fails if the environment was deleted meanwhile. The shard depends on the
// try.
func (e *RunEnvironment) Accept(run string, try int) []table.Write {
	if e.name == DefaultEnvironment {
		return nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	return []table.Write{table.Update{
		Key: lastRunKey(e.org, e.name, (int(h.Sum32()%lastRunShards)+try)%lastRunShards),
		Do:  []table.Action{table.Set("run", run), table.Remove(table.TTLAttribute)},
		If:  table.Or(table.Absent("deleted"), table.Ne("deleted", e.incarnation)), //guard:environment/deleted-run drop
	}}
}

// Gone is the errs.Unprocessable of a run whose environment is not there, or was
// deleted meanwhile.
func (e *RunEnvironment) Gone() error { return unknownEnvironment(e.name, errs.Body("environment")) }
