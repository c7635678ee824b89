package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"millrace/shared/table"
)

// write is one write on its way.
type write struct {
	key    table.Key
	cond   table.Cond
	do     []table.Action // of an Update
	update bool
	check  bool

	old, new         table.Item // nil where there is none
	oldSize, newSize int
}

// plan checks and prepares what does not depend on the stored item.
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
		out := &write{key: item.Key(), cond: w.If, new: maps.Clone(item)}
		out.newSize, err = table.CheckItem(item)
		return out, err
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

// prepare checks the condition and works an Update out.
func (t *Table) prepare(w *write) (err error) {
	w.old = t.load(w.key)
	w.oldSize = w.old.Size()
	if !table.Holds(w.cond, w.old) {
		return table.ErrConditionFailed
	}
	if !w.update {
		return nil
	}
	if w.new, err = table.Apply(w.key, w.old, w.do); err != nil {
		return err
	}
	w.newSize, err = table.CheckItem(w.new)
	return err
}

// apply writes what prepare found fit.
func (t *Table) apply(w *write) {
	if w.check || w.old == nil && w.new == nil {
		return
	}
	at := partition{pk: w.key.PK}
	if w.new == nil {
		t.remove(at, row{sort: w.key.SK, key: w.key})
	} else {
		t.store(at, row{sort: w.key.SK, key: w.key, item: w.new})
	}
	for _, x := range table.Indexes {
		before, stood := w.old.Entry(x)
		after, stands := w.new.Entry(x)
		if stood == stands && before == after {
			continue
		}
		if stood {
			t.remove(partition{x, before.PK}, row{sort: before.SK, key: w.key})
		}
		if stands {
			t.store(partition{x, after.PK}, row{sort: after.SK, key: w.key})
		}
	}
}

func (w *write) charge(m *table.Meter) float64 {
	if m != nil && !w.check {
		for _, x := range table.Indexes {
			m.AddIndex(x, table.Units{Write: table.IndexWriteUnits(x, w.old, w.new)})
		}
	}
	return table.WriteUnits(max(w.oldSize, w.newSize))
}

func (t *Table) single(ctx context.Context, op table.Operation, one table.Write) (table.Item, error) {
	w, err := plan(one)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	if err = t.prepare(w); err == nil {
		t.apply(w)
	}
	t.mu.Unlock()
	m := table.MeterFrom(ctx)
	switch {
	case err == nil:
		m.Add(op, table.Units{Write: w.charge(m)})
		return maps.Clone(w.new), nil
	case errors.Is(err, table.ErrConditionFailed):
		m.Add(op, table.Units{Write: table.WriteUnits(w.oldSize)})
		return nil, &table.ConditionError{Old: maps.Clone(w.old)}
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

// BatchWrite applies Puts and Deletes, table.MaxBatchWrite in one request.
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
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := plans[:min(len(plans), table.MaxBatchWrite)]
		plans = plans[len(batch):]
		units := 0.0
		t.mu.Lock()
		for _, w := range batch {
			_ = t.prepare(w) // no condition, no update: nothing to refuse
			t.apply(w)
		}
		t.mu.Unlock()
		for _, w := range batch {
			units += w.charge(m)
		}
		m.Add(table.OpBatchWrite, table.Units{Write: units})
	}
	return nil
}

// Transact applies all of the writes or none. There is never a conflict,
// because one runs at a time.
func (t *Table) Transact(ctx context.Context, writes ...table.Write) error {
	if err := table.CheckTransaction(writes); err != nil {
		return err
	}
	plans, err := planAll(writes)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if err = t.prepareAll(plans); err == nil {
		for _, w := range plans {
			t.apply(w)
		}
	}
	t.mu.Unlock()
	_, cancelled := errors.AsType[*table.TransactionError](err)
	if err != nil && !cancelled {
		return err
	}
	m, units := table.MeterFrom(ctx), 0.0
	for _, w := range plans {
		if cancelled {
			units += table.WriteUnits(w.oldSize)
		} else {
			units += w.charge(m)
		}
	}
	m.Add(table.OpTransact, table.Units{Write: units * table.TransactionFactor})
	return err
}

func (t *Table) prepareAll(plans []*write) error {
	reasons, size, cancelled := make([]table.Reason, len(plans)), 0, false
	for i, w := range plans {
		err := t.prepare(w)
		switch {
		case err == nil:
			size += max(w.oldSize, w.newSize)
			continue
		case errors.Is(err, table.ErrConditionFailed):
			reasons[i] = table.Reason{Err: table.ErrConditionFailed, Old: maps.Clone(w.old)}
		case errors.Is(err, table.ErrInvalid):
			reasons[i].Err = table.ErrInvalid
		default:
			reasons[i].Err = table.ErrLimit
		}
		cancelled = true
	}
	if cancelled {
		return &table.TransactionError{Reasons: reasons}
	}
	if size > table.MaxTransactBytes {
		return fmt.Errorf("%w: transaction of %d bytes, at most %d", table.ErrLimit, size, table.MaxTransactBytes)
	}
	return nil
}
