package meter

import (
	"context"

	"millrace/shared/table"
)

// Table counts the capacity that calls to a table consume.
func (m *Meter) Table(next table.Table) table.Table { return counted{next, &m.table} }

type counted struct {
	next  table.Table
	meter *table.Meter
}

func (c counted) ctx(ctx context.Context) context.Context { return table.WithMeter(ctx, c.meter) }

func (c counted) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	return c.next.Get(c.ctx(ctx), key, opts...)
}

func (c counted) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	return c.next.BatchGet(c.ctx(ctx), keys, opts...)
}

func (c counted) Put(ctx context.Context, put table.Put) error { return c.next.Put(c.ctx(ctx), put) }

func (c counted) Update(ctx context.Context, update table.Update) (table.Item, error) {
	return c.next.Update(c.ctx(ctx), update)
}

func (c counted) Delete(ctx context.Context, del table.Delete) error {
	return c.next.Delete(c.ctx(ctx), del)
}

func (c counted) BatchWrite(ctx context.Context, writes []table.Write) error {
	return c.next.BatchWrite(c.ctx(ctx), writes)
}

func (c counted) Transact(ctx context.Context, writes ...table.Write) error {
	return c.next.Transact(c.ctx(ctx), writes...)
}

func (c counted) Query(ctx context.Context, q table.Query) (table.Page, error) {
	return c.next.Query(c.ctx(ctx), q)
}

func (c counted) Check(ctx context.Context) error { return c.next.Check(ctx) }
