package sqltable

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"millrace/localstack/embedded/store"
	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

// write is one write on its way: what can be done outside the writer is done
// when it is planned, the rest inside.
type write struct {
	key    table.Key
	cond   table.Cond
	do     []table.Action // of an Update
	update bool
	check  bool

	new     table.Item // nil for a Delete
	newSize int
	data    []byte // new's encoding

	old     table.Item // nil if there was none
	oldSize int
	voided  bool // of a cancelled transaction
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
		if _, given := w.Item.(table.Item); given {
			// A caller who gave up waiting may change it while it is written.
			item = maps.Clone(item)
		}
		out := &write{key: item.Key(), cond: w.If, new: item, data: encode(item)}
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

// staged is a row's change in the group that is made.
type staged struct {
	before table.Item // before the group
	item   table.Item // nil: deleted
	size   int
}

// find is an item as the next write of the group meets it.
func (t *Table) find(key table.Key) (look, error) {
	if s := t.staged[key]; s != nil {
		return look{item: s.item, size: s.size, known: true}, nil
	}
	return t.lookup(context.Background(), key)
}

// prepare loads the stored item, checks the condition and works an Update out.
// It may run more than once.
func (w *write) prepare(t *Table) error {
	w.voided = false
	l, err := t.find(w.key)
	if err != nil {
		return err
	}
	w.old, w.oldSize = l.item, l.size
	if !table.Holds(w.cond, w.old) {
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
	w.data = nil // encoded into the journal
	return nil
}

// stage has the group make the change, and appends it to the journal's record.
func (w *write) stage(t *Table, record []byte) []byte {
	if w.check || w.old == nil && w.new == nil {
		return record
	}
	s := t.staged[w.key]
	if s == nil {
		s = &staged{before: w.old}
		t.staged[w.key] = s
	}
	s.item, s.size = w.new, w.newSize
	return appendChange(record, w.key, w.new, w.data)
}

// Publish lets everybody see what the group changed.
func (t *Table) Publish() {
	t.memory.mu.Lock()
	for key, s := range t.staged {
		t.memory.write(key, s)
	}
	t.memory.mu.Unlock()
	clear(t.staged)
}

// Discard forgets what the group changed.
func (t *Table) Discard() { clear(t.staged) }

// Freeze lists what the database does not have yet.
func (t *Table) Freeze() (store.Fold, func()) {
	folds := t.memory.freeze()
	write := func(conn *sqlite.Conn) error {
		for i := range folds {
			if err := folds[i].write(conn); err != nil {
				return err
			}
		}
		return nil
	}
	return write, func() { t.memory.folded(folds) }
}

// commit checks and makes writes, all or none, as one change of the journal.
func (t *Table) commit(ctx context.Context, prepare func() error, writes ...*write) error {
	// What is not in memory is read before the group is made, beside others.
	for _, w := range writes {
		if _, err := t.lookup(ctx, w.key); err != nil {
			return err
		}
	}
	return t.log.Commit(ctx, func(record []byte) ([]byte, error) {
		if err := prepare(); err != nil {
			return record, err
		}
		for _, w := range writes {
			record = w.stage(t, record)
		}
		return record, nil
	})
}

// single runs one write and reports it as op.
func (t *Table) single(ctx context.Context, op table.Operation, w table.Write) (*write, error) {
	p, err := plan(w)
	if err != nil {
		return nil, err
	}
	err = t.commit(ctx, func() error { return p.prepare(t) }, p)
	switch {
	case err == nil:
		p.charge(table.MeterFrom(ctx), op)
		return p, nil
	case errors.Is(err, table.ErrConditionFailed):
		meterFailed(ctx, op, p)
		return nil, &table.ConditionError{Old: t.own(p.old)}
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
	p, err := t.single(ctx, table.OpUpdate, update)
	if err != nil {
		return nil, err
	}
	return t.own(p.new), nil
}

// Delete removes an item.
func (t *Table) Delete(ctx context.Context, del table.Delete) error {
	_, err := t.single(ctx, table.OpDelete, del)
	return err
}

// BatchWrite applies Puts and Deletes, up to table.MaxBatchWrite in one commit.
func (t *Table) BatchWrite(ctx context.Context, writes []table.Write) error {
	if err := table.CheckBatch(writes); err != nil {
		return err
	}
	plans := make([]*write, len(writes))
	for i, w := range writes {
		var err error
		if plans[i], err = plan(w); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	for len(plans) > 0 {
		batch := plans[:min(len(plans), table.MaxBatchWrite)]
		plans = plans[len(batch):]
		err := t.commit(ctx, func() error {
			for _, p := range batch {
				if err := p.prepare(t); err != nil {
					return err
				}
			}
			return nil
		}, batch...)
		if err != nil {
			return err
		}
		chargeAll(table.MeterFrom(ctx), table.OpBatchWrite, batch, 1)
	}
	return nil
}
