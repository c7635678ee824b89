package record

import (
	"cmp"
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
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// ErrDelete is returned by Change.Next to delete the record.
var ErrDelete = errors.New("record: to be deleted")

// Change is a change of one record.
type Change[T any] struct {
	// Action is the action of the audit entry, such as "rotate". Empty: create,
	// update or delete, depending on the change.
	Action string
	// Next returns the new record for the stored one, which is nil if there is
	// none. It is called again if another writer changes the record meanwhile. An
	// unchanged record is neither written nor audited. [ErrDelete] deletes the
	// record; any other error is returned to the caller.
	Next func(now *T) (T, error)
	// Metadata is added to the audit entry.
	Metadata map[string]any
	// Also returns further writes of the transaction; it may be nil. Their
	// conditions must not fail while the record is unchanged.
	Also func(Outcome[T]) []table.Write
}

// Outcome is the result of a change.
type Outcome[T any] struct {
	Before, After    T // zero if the record did not exist, or no longer exists
	Existed, Changed bool
}

// Write makes a change. Errors: those of Next; errs.Conflict if other writers
// kept changing the record; errs.TooMany beyond the kind's limit.
func (s Set[T, P]) Write(ctx context.Context, id string, c Change[T]) (Outcome[T], error) {
	var out Outcome[T]
	room := sync.OnceValue(func() error { return s.room(ctx) }) // however often it is tried
	err := Retry(ctx, s.Noun+" '"+s.name(id)+"'", func() error {
		var writes []table.Write
		var entry audit.Change
		var err error
		if out, writes, entry, err = s.prepare(ctx, id, c, room); err != nil || writes == nil {
			return err
		}
		if err = s.Table.Transact(ctx, append(writes, audit.Entry(ctx, s.Clock.Now(), entry))...); err != nil {
			return fmt.Errorf("write %s: %w", s.Type, err)
		}
		return nil
	})
	return out, err
}

// Retry calls do until it neither fails a condition nor conflicts with another
// writer. Errors: errs.Conflict, naming what was to be changed, if the
// conflicts persist; that of an ended ctx.
func Retry(ctx context.Context, what string, do func() error) error {
	const attempts = 40 // one writer succeeds in each round, so this many may change the same thing at once
	for n := range attempts {
		err := do()
		if !errors.Is(err, table.ErrConditionFailed) && !errors.Is(err, table.ErrConflict) {
			return err
		}
		if clock.Sleep(ctx, rand.N(min(100*time.Millisecond, time.Millisecond<<min(n, 7)))) != nil {
			return fmt.Errorf("change %s: %w", what, context.Cause(ctx))
		}
	}
	return errs.New(errs.Conflict, "Others are changing %s; try again", what)
}

// Prepare is like Write without the transaction: it returns the writes of the
// change, none if nothing changes, and its audit change. It is for changes of
// several records, which the caller makes in one transaction, inside [Retry].
func (s Set[T, P]) Prepare(ctx context.Context, id string, c Change[T]) (Outcome[T], []table.Write, audit.Change, error) {
	return s.prepare(ctx, id, c, func() error { return s.room(ctx) })
}

func (s Set[T, P]) prepare(
	ctx context.Context, id string, c Change[T], room func() error,
) (out Outcome[T], writes []table.Write, entry audit.Change, err error) {
	out.Before, out.Existed, err = s.Find(ctx, id)
	if err != nil {
		return out, nil, entry, err
	}
	var now *T
	if out.Existed {
		stored := out.Before
		now = &stored
	}
	out.After, err = c.Next(now)
	deleted := errors.Is(err, ErrDelete)
	if err != nil && !deleted {
		return out, nil, entry, err
	}
	entry = audit.Change{Action: c.Action, ResourceType: s.Type, ResourceID: s.name(id), Metadata: c.Metadata}
	if out.Existed {
		entry.Before = audited(&out.Before)
	}
	switch verb := "create"; {
	case deleted:
		entry.Action = cmp.Or(c.Action, "delete")
		writes = append(writes, table.Delete{Key: s.Key(ctx, id), If: s.unchanged(&out)})
	case out.Existed && reflect.DeepEqual(out.Before, out.After):
		return out, nil, entry, nil
	default:
		if out.Existed {
			verb = "update"
		} else if err := room(); err != nil {
			return out, nil, entry, err
		}
		s.stamp(ctx, id, &out)
		entry.Action, entry.After = cmp.Or(c.Action, verb), audited(&out.After)
		writes = append(writes, table.Put{Item: out.After, If: s.unchanged(&out)})
	}
	out.Changed = true
	if c.Also != nil {
		writes = append(writes, c.Also(out)...)
	}
	return out, writes, entry, nil
}

// audited returns a record as audit entries show it.
func audited(r any) any {
	if a, ok := r.(Audited); ok {
		return a.Audited()
	}
	return r
}

// unchanged returns the condition that a record is as it was read.
func (s Set[T, P]) unchanged(out *Outcome[T]) (cond table.Cond) {
	switch r := P(&out.Before).made(); {
	case !out.Existed:
		cond = table.IsNew() //guard:record/new drop
	case r.Revision.Kind() == table.None:
		cond = table.And(table.IsStored(), table.Absent("revision")) //guard:record/unrevised drop
	default:
		cond = table.Eq("revision", r.Revision) //guard:record/unchanged drop
	}
	return cond
}

// stamp sets a record's key and its creation and update fields. A new record
// that has a creator keeps it.
func (s Set[T, P]) stamp(ctx context.Context, id string, out *Outcome[T]) {
	r, before := P(&out.After), P(&out.Before).made()
	m, now, actor := r.made(), clock.ToMillis(s.Clock.Now()), tenant.From(ctx).Actor()
	created, by := before.CreatedAt, before.CreatedBy
	if !out.Existed {
		created, by = now, cmp.Or(m.CreatedBy, actor)
	}
	*m = Made{Key: s.Key(ctx, id), Revision: table.V(ids.New(s.Clock.Now())), CreatedAt: created, CreatedBy: by}
	r.changed(now, actor)
}

// room reserves quota for a new record. A reservation that is not used is
// released when the records are counted again.
func (s Set[T, P]) room(ctx context.Context) error {
	if s.Limit == "" {
		return nil
	}
	q := s.query(ctx)
	if s.In == "" {
		q.Only = []string{"created_at"}
	}
	return s.Quota.Take(ctx, s.Limit, tenant.From(ctx).OrgID, 1, func(ctx context.Context) (int64, error) {
		return table.Count(ctx, s.Table, q)
	})
}
