package sqltable

import (
	"context"
	"errors"
	"fmt"
	"maps"

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

// prepare loads the stored item, checks the condition and works an Update out.
// It may run more than once.
func (w *write) prepare(conn *sqlite.Conn) (err error) {
	w.voided = false
	if w.old, err = load(conn, w.key); err != nil {
		return err
	}
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
	if w.newSize, err = table.CheckItem(w.new); err != nil {
		return err
	}
	w.data = encode(w.new)
	return nil
}

// apply writes what prepare found fit.
func (w *write) apply(conn *sqlite.Conn) error {
	if w.check || w.old == nil && w.new == nil {
		return nil
	}
	var err error
	switch {
	case w.old == nil:
		err = run(conn, "INSERT INTO items (pk, sk, data) VALUES (?, ?, ?)", w.data, w.key.PK, w.key.SK)
	case w.new == nil:
		err = run(conn, "DELETE FROM items WHERE pk = ? AND sk = ?", nil, w.key.PK, w.key.SK)
	default:
		err = run(conn, "UPDATE items SET data = ?3 WHERE pk = ?1 AND sk = ?2", w.data, w.key.PK, w.key.SK)
	}
	if err != nil {
		return err
	}
	return w.reindex(conn)
}

// reindex brings the indexes up to date where the item's place has changed.
func (w *write) reindex(conn *sqlite.Conn) error {
	for _, x := range table.Indexes {
		before, stood := w.old.Entry(x)
		after, stands := w.new.Entry(x)
		if err := w.move(conn, string(x), before, stood, after, stands); err != nil {
			return err
		}
	}
	before, expired := expiry(w.old)
	after, expires := expiry(w.new)
	return w.move(conn, table.TTLAttribute, before, expired, after, expires)
}

func (w *write) move(conn *sqlite.Conn, idx string, before table.Key, stood bool, after table.Key, stands bool) error {
	if stood == stands && before == after {
		return nil
	}
	if stood {
		err := run(conn, "DELETE FROM entries WHERE idx = ? AND ipk = ? AND isk = ? AND pk = ? AND sk = ?",
			nil, idx, before.PK, before.SK, w.key.PK, w.key.SK)
		if err != nil {
			return err
		}
	}
	if !stands {
		return nil
	}
	return run(conn, "INSERT INTO entries (idx, ipk, isk, pk, sk) VALUES (?, ?, ?, ?, ?)",
		nil, idx, after.PK, after.SK, w.key.PK, w.key.SK)
}

// run executes a statement with texts as its first parameters and data, unless
// nil, as the last.
func run(conn *sqlite.Conn, sql string, data []byte, texts ...string) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("sqltable: %w", err)
	}
	for i, s := range texts {
		stmt.BindText(i+1, s)
	}
	if data != nil {
		stmt.BindBytes(len(texts)+1, data)
	}
	if _, err := stmt.Step(); err != nil {
		return fmt.Errorf("sqltable: %w", err)
	}
	return nil
}

// single runs one write and reports it as op.
func (t *Table) single(ctx context.Context, op table.Operation, w table.Write) (*write, error) {
	p, err := plan(w)
	if err != nil {
		return nil, err
	}
	err = t.db.Write(ctx, func(conn *sqlite.Conn) error {
		if err := p.prepare(conn); err != nil {
			return err
		}
		return p.apply(conn)
	})
	switch {
	case err == nil:
		p.charge(table.MeterFrom(ctx), op)
		return p, nil
	case errors.Is(err, table.ErrConditionFailed):
		meterFailed(ctx, op, p)
		return nil, &table.ConditionError{Old: p.old}
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
	return p.new, nil
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
		err := t.db.Write(ctx, func(conn *sqlite.Conn) error {
			for _, p := range batch {
				if err := p.prepare(conn); err != nil {
					return err
				}
			}
			return applyAll(conn, batch)
		})
		if err != nil {
			return err
		}
		chargeAll(table.MeterFrom(ctx), table.OpBatchWrite, batch, 1)
	}
	return nil
}

func applyAll(conn *sqlite.Conn, batch []*write) error {
	for _, p := range batch {
		if err := p.apply(conn); err != nil {
			return err
		}
	}
	return nil
}
