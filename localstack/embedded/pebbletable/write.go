package pebbletable

import (
	"context"
	"errors"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// write is a write in progress: it is planned outside the commit and prepared
// and applied inside.
type write struct {
	key    table.Key
	cond   table.Cond
	do     []table.Action // of an Update
	update bool
	check  bool

	old, new         table.Item // nil if there is none
	oldSize, newSize int
	data             []byte // encoding of new
}

// plan checks and prepares whatever does not depend on the stored item.
func plan(w table.Write) (*write, error) {
	if err := table.CheckWrite(w); err != nil {
		return nil, err
	}
	switch w := w.(type) {
	case table.Put:
		item, err := table.Marshal(w.Item)
		if err != nil {
			return nil, err
		}
		out := &write{key: item.Key(), cond: w.If, new: item}
		if out.newSize, err = table.CheckItem(item); err != nil {
			return nil, err
		}
		out.data = encode(item)
		return out, nil
	case table.Update:
		return &write{key: w.Key, cond: w.If, do: w.Do, update: true}, nil
	case table.Delete:
		return &write{key: w.Key, cond: w.If}, nil
	case table.Check:
		return &write{key: w.Key, cond: w.If, check: true}, nil
	}
	return nil, fmt.Errorf("%w: unknown write %T", table.ErrInvalid, w)
}

func planAll(writes []table.Write) ([]*write, error) {
	plans := make([]*write, len(writes))
	for i, w := range writes {
		var err error
		if plans[i], err = plan(w); err != nil {
			return nil, fmt.Errorf("write %d: %w", i, err)
		}
	}
	return plans, nil
}

// prepare loads the stored item, checks the condition and computes the result
// of an Update.
func (w *write) prepare(b *store.Batch) (err error) {
	if w.old, err = load(b, w.key); err != nil {
		return err
	}
	w.oldSize = w.old.Size()
	if !table.Holds(w.cond, w.old) { //guard:store/condition and w.check
		return table.ErrConditionFailed
	}
	if !w.update {
		return nil
	}
	if w.new, err = table.Apply(w.key, w.old, w.do); err != nil {
		return err
	}
	if w.newSize, err = table.CheckItem(w.new); err != nil {
		return err
	}
	w.data = encode(w.new)
	return nil
}

// apply writes the prepared item and its index entries.
func (w *write) apply(b *store.Batch) error {
	switch {
	case w.check || w.old == nil && w.new == nil:
		return nil
	case w.new == nil:
		if err := b.Delete(itemKey(w.key)); err != nil {
			return err
		}
	default:
		if err := b.Set(itemKey(w.key), w.data); err != nil {
			return err
		}
	}
	for _, x := range table.Indexes {
		before, stood := w.old.Entry(x)
		after, stands := w.new.Entry(x)
		if stood == stands && before == after {
			continue
		}
		if stood {
			if err := b.Delete(entryKey(x, before, w.key)); err != nil {
				return err
			}
		}
		if stands {
			if err := b.Set(entryKey(x, after, w.key), nil); err != nil {
				return err
			}
		}
	}
	before, after := expiry(w.old), expiry(w.new)
	if before == after {
		return nil
	}
	if before > 0 {
		if err := b.Delete(expiryKey(before, w.key)); err != nil {
			return err
		}
	}
	if after > 0 {
		return b.Set(expiryKey(after, w.key), nil)
	}
	return nil
}

// charge counts the units that an applied write consumed of the indexes, and
// returns its units of the table, which depend on the larger of the old and new
// item.
func (w *write) charge(m *table.Meter) float64 {
	if m != nil && !w.check {
		for _, x := range table.Indexes {
			m.AddIndex(x, table.Units{Write: table.IndexWriteUnits(x, w.old, w.new)})
		}
	}
	return table.WriteUnits(max(w.oldSize, w.newSize))
}

// single runs one write and reports it as op.
func (t *Table) single(ctx context.Context, op table.Operation, one table.Write) (table.Item, error) {
	w, err := plan(one)
	if err != nil {
		return nil, err
	}
	err = t.db.Commit(ctx, func(b *store.Batch) error {
		if err := w.prepare(b); err != nil {
			return err
		}
		return w.apply(b)
	})
	m := table.MeterFrom(ctx)
	switch {
	case err == nil:
		m.Add(op, table.Units{Write: w.charge(m)})
		return w.new, nil
	case errors.Is(err, table.ErrConditionFailed):
		m.Add(op, table.Units{Write: table.WriteUnits(w.oldSize)})
		return nil, &table.ConditionError{Old: w.old}
	}
	return nil, err
}

// Put stores an item.
func (t *Table) Put(ctx context.Context, put table.Put) error {
	_, err := t.single(ctx, table.OpPut, put)
	return err
}

// Update changes an item and returns all its new attributes.
func (t *Table) Update(ctx context.Context, update table.Update) (table.Item, error) {
	return t.single(ctx, table.OpUpdate, update)
}

// Delete removes an item.
func (t *Table) Delete(ctx context.Context, del table.Delete) error {
	_, err := t.single(ctx, table.OpDelete, del)
	return err
}

// BatchWrite applies Puts and Deletes, table.MaxBatchWrite in one commit.
func (t *Table) BatchWrite(ctx context.Context, writes []table.Write) error {
	if err := table.CheckBatch(writes); err != nil {
		return err
	}
	plans, err := planAll(writes)
	if err != nil {
		return err
	}
	m := table.MeterFrom(ctx)
	for len(plans) > 0 {
		batch := plans[:min(len(plans), table.MaxBatchWrite)]
		plans = plans[len(batch):]
		err := t.db.Commit(ctx, func(b *store.Batch) error {
			for _, w := range batch {
				if err := errors.Join(w.prepare(b), w.apply(b)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		units := 0.0
		for _, w := range batch {
			units += w.charge(m)
		}
		m.Add(table.OpBatchWrite, table.Units{Write: units})
	}
	return nil
}
