package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Store holds the dependencies of a Set.
type Store struct {
	Table table.Table
	Clock clock.Clock
	Quota *quota.Quota // nil: nothing is limited
}

// Set is the records of one kind in the workspace of a call's context. Every
// method panics in a context without a workspace.
type Set[T any, P stamped[T]] struct {
	Kind
	Store
}

// New returns the set of a kind. It panics if the record type has fields
// without a tag that says how they are shown, unless it is [Audited].
func New[T any, P stamped[T]](k Kind, s Store) Set[T, P] {
	if _, ok := any(P(nil)).(Audited); !ok {
		check(reflect.TypeFor[T]())
	}
	return Set[T, P]{k, s}
}

// Key returns the key of a record.
func (s Set[T, P]) Key(ctx context.Context, id string) table.Key {
	if s.At != nil {
		return s.At(s.org(ctx), id)
	}
	return table.Key{PK: s.Partition(ctx), SK: id}
}

// Partition returns the partition that lists the records: the one that they are
// stored in, or that of the kind's index.
func (s Set[T, P]) Partition(ctx context.Context) string {
	return s.org(ctx) + "#" + s.Folder //guard:tenant/record operand 1 "org"
}

func (s Set[T, P]) org(ctx context.Context) string {
	org := tenant.From(ctx).OrgID
	if org == "" {
		panic("record: " + s.Type + " of no workspace")
	}
	return org
}

// query returns the query of all records. Those of an index are found with some
// delay.
func (s Set[T, P]) query(ctx context.Context) table.Query {
	return table.Query{Index: s.In, PK: s.Partition(ctx), Consistent: s.In == ""}
}

// Get reads a record. Errors: errs.NotFound.
func (s Set[T, P]) Get(ctx context.Context, id string) (T, error) {
	r, err := table.Load[T](ctx, s.Table, s.Key(ctx, id), table.Consistent)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return r, s.Absent(id)
	case err != nil:
		return r, fmt.Errorf("read %s: %w", s.Type, err)
	}
	return r, nil
}

// Absent returns the errs.NotFound of a record that does not exist.
func (s Set[T, P]) Absent(id string) error {
	return errs.New(errs.NotFound, "%s '%s' not found", s.Noun, s.name(id))
}

// Find is Get, but returns false instead of an error if there is no such
// record.
func (s Set[T, P]) Find(ctx context.Context, id string) (T, bool, error) {
	r, err := s.Get(ctx, id)
	if errs.CodeOf(err) == errs.NotFound {
		return r, false, nil
	}
	return r, err == nil, err
}

// All iterates over the records whose ids begin with a prefix, in order of
// their ids.
func (s Set[T, P]) All(ctx context.Context, prefix string) iter.Seq2[T, error] {
	return s.all(ctx, prefix, 0)
}

// all is All with a page size, 0 for the largest.
func (s Set[T, P]) all(ctx context.Context, prefix string, page int) iter.Seq2[T, error] {
	q := s.query(ctx)
	q.Range, q.Limit = table.Prefix(prefix), page
	return s.read(ctx, q)
}

// read iterates over the records of a query.
func (s Set[T, P]) read(ctx context.Context, q table.Query) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range table.All(ctx, s.Table, q) {
			var r T
			if err == nil {
				err = table.Unmarshal(item, &r)
			}
			if err != nil {
				yield(r, fmt.Errorf("list %s records: %w", s.Type, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// List returns up to limit records, 0: any number, for which keep returns true, all
// if keep is nil, in order of their ids. keep may clear large fields that are not needed,
// to save memory.
func (s Set[T, P]) List(ctx context.Context, prefix string, limit int, keep func(*T) bool) ([]T, error) {
	out, page := []T{}, 0
	if keep == nil {
		page = limit // no more is needed
	}
	for r, err := range s.all(ctx, prefix, page) {
		if err != nil {
			return nil, err
		}
		if keep == nil || keep(&r) {
			out = append(out, r)
		}
		if limit > 0 && len(out) == limit {
			break
		}
	}
	return out, nil
}

// Page returns up to limit records of those after an id, "" for the first ones, for
// which keep returns true, all if keep is nil, in order of their ids. next is the id
// after which the next page begins, "" if there is none. It panics for a kind whose
// records are stored elsewhere.
func (s Set[T, P]) Page(ctx context.Context, after string, limit int, keep func(*T) bool) (page []T, next string, err error) {
	if s.At != nil {
		panic("record: pages of " + s.Type + " records, which are not stored in order of their ids")
	}
	q := s.query(ctx)
	if after != "" {
		q.Range = table.After(after)
	}
	if keep == nil {
		q.Limit = limit + 1 // the last one tells whether there is a next page
	}
	page = []T{}
	for r, err := range s.read(ctx, q) {
		if err != nil {
			return nil, "", err
		}
		if keep != nil && !keep(&r) {
			continue
		}
		if len(page) == limit {
			return page, next, nil
		}
		page, next = append(page, r), P(&r).made().SK
	}
	return page, "", nil
}

// Create stores a new record. Errors: errs.Conflict if the id exists,
// errs.TooMany.
func (s Set[T, P]) Create(ctx context.Context, id string, r T) (T, error) {
	out, err := s.Write(ctx, id, Change[T]{Next: func(now *T) (T, error) {
		if now != nil {
			return r, errs.New(errs.Conflict, "%s '%s' exists already", s.Noun, s.name(id))
		}
		return r, nil
	}})
	return out.After, err
}

// Update changes a record with edit. Errors: errs.NotFound, and those of edit.
func (s Set[T, P]) Update(ctx context.Context, id, action string, edit func(*T) error) (T, error) {
	out, err := s.Write(ctx, id, Change[T]{Action: action, Next: func(now *T) (next T, err error) {
		if now == nil {
			return next, s.Absent(id)
		}
		next = *now
		err = edit(&next)
		return next, err
	}})
	return out.After, err
}

// Delete removes a record and returns it as it was. Errors: errs.NotFound, and
// what check returns; a nil check lets every record go.
func (s Set[T, P]) Delete(ctx context.Context, id string, check func(*T) error) (T, error) {
	out, err := s.Write(ctx, id, Change[T]{Next: func(now *T) (next T, err error) {
		switch {
		case now == nil:
			return next, s.Absent(id)
		case check != nil:
			err = check(now)
		}
		if err == nil {
			err = ErrDelete
		}
		return next, err
	}})
	return out.Before, err
}

// Note writes an audit entry for an action without a change, such as reading a
// value.
func (s Set[T, P]) Note(ctx context.Context, id, action string, metadata map[string]any) error {
	entry := audit.Entry(ctx, s.Clock.Now(), audit.Change{
		Action: action, ResourceType: s.Type, ResourceID: s.name(id), Metadata: metadata,
	})
	if err := s.Table.Put(ctx, entry); err != nil {
		return fmt.Errorf("audit %s of %s: %w", action, s.Type, err)
	}
	return nil
}
