package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// ErrDelete is what Change.Next returns for a record that is to be deleted.
var ErrDelete = errors.New("record: to be deleted")

// Change is one change of one record.
type Change[T any] struct {
	// Action is the verb of the audit entry: "create", "update", "rotate".
	Action string
	// Next makes the record as it is to be of the one that is stored, nil if there
	// is none. It is asked again when others change the record meanwhile. A record
	// that stays equal is not written, and leaves no audit entry. [ErrDelete]
	// deletes the record; any other error is returned.
	Next func(now *T) (T, error)
	// Metadata is what else the audit entry tells.
	Metadata map[string]any
	// Also are further writes of the transaction, under no conditions of their own
	// that could fail while the record is as it was.
	Also []table.Write
}

// Outcome is what a change came to.
type Outcome[T any] struct {
	Before, After    T // zero: there was none, there is none
	Existed, Changed bool
}

// Write makes a change. Errors: those of Next; errs.Conflict if others kept
// changing the record; errs.TooMany for one more than the kind's limit.
func (s Set[T, P]) Write(ctx context.Context, id string, c Change[T]) (Outcome[T], error) {
	var out Outcome[T]
	room := sync.OnceValue(func() error { return s.room(ctx) }) // however often it is tried
	err := Retry(ctx, s.Noun+" '"+s.name(id)+"'", func() (err error) {
		out, err = s.write(ctx, id, c, room)
		return err
	})
	return out, err
}

// Retry calls do until others no longer get in its way: until it neither fails a
// condition nor conflicts. Errors: errs.Conflict, naming what was to be changed, if
// they keep to; that of an ended ctx.
func Retry(ctx context.Context, what string, do func() error) error {
	const attempts = 40 // each round of contenders has a winner, so this many may change one thing at once
	for n := range attempts {
		err := do()
		if !errors.Is(err, table.ErrConditionFailed) && !errors.Is(err, table.ErrConflict) {
			return err
		}
		pause := time.NewTimer(rand.N(min(100*time.Millisecond, time.Millisecond<<min(n, 7))))
		select {
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("change %s: %w", what, context.Cause(ctx))
		case <-pause.C:
		}
	}
	return errs.New(errs.Conflict, "Others are changing %s; try again", what)
}

func (s Set[T, P]) write(ctx context.Context, id string, c Change[T], room func() error) (out Outcome[T], err error) {
	out.Before, out.Existed, err = s.Find(ctx, id)
	if err != nil {
		return out, err
	}
	var now *T
	if out.Existed {
		stored := out.Before
		now = &stored
	}
	out.After, err = c.Next(now)
	deleted := errors.Is(err, ErrDelete)
	if err != nil && !deleted {
		return out, err
	}
	entry := audit.Change{Action: c.Action, ResourceType: s.Type, ResourceID: s.name(id), Metadata: c.Metadata}
	if out.Existed {
		entry.Before = out.Before
	}
	var writes []table.Write
	switch {
	case deleted:
		writes = append(writes, table.Delete{Key: s.Key(ctx, id), If: s.unchanged(&out)})
	case out.Existed && reflect.DeepEqual(out.Before, out.After):
		return out, nil
	default:
		if !out.Existed {
			if err := room(); err != nil {
				return out, err
			}
		}
		s.stamp(ctx, id, &out)
		entry.After = out.After
		writes = append(writes, table.Put{Item: out.After, If: s.unchanged(&out)})
	}
	writes = append(writes, c.Also...)
	err = s.Table.Transact(ctx, append(writes, audit.Entry(ctx, s.Clock.Now(), entry))...)
	if err != nil {
		return out, fmt.Errorf("write %s: %w", s.Type, err)
	}
	out.Changed = true
	return out, nil
}

// unchanged is the condition that a record is as it was read.
func (s Set[T, P]) unchanged(out *Outcome[T]) (cond table.Cond) {
	if out.Existed {
		cond = table.Eq("revision", P(&out.Before).meta().Revision) //guard:record/unchanged drop
	} else {
		cond = table.IsNew() //guard:record/new drop
	}
	return cond
}

// stamp gives a record its key and what it tells of its making and its change.
func (s Set[T, P]) stamp(ctx context.Context, id string, out *Outcome[T]) {
	m, before := P(&out.After).meta(), *P(&out.Before).meta()
	now, actor := clock.ToMillis(s.Clock.Now()), tenant.From(ctx).Actor()
	*m = Meta{
		Key: s.Key(ctx, id), Revision: before.Revision + 1,
		CreatedAt: before.CreatedAt, CreatedBy: before.CreatedBy, UpdatedAt: now, UpdatedBy: actor,
	}
	if !out.Existed {
		m.CreatedAt, m.CreatedBy = now, actor
	}
}

// room takes room for a new record.
func (s Set[T, P]) room(ctx context.Context) error {
	if s.Limit == "" {
		return nil
	}
	partition := s.partition(ctx)
	return s.Quota.Take(ctx, s.Limit, tenant.From(ctx).OrgID, 1, func(ctx context.Context) (int64, error) {
		return table.Count(ctx, s.Table, table.Query{PK: partition, Only: []string{"revision"}, Consistent: true})
	})
}
