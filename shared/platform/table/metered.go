package table

import "context"

// Metered returns a table that counts its operations in m, except those whose
// context has its own meter.
func Metered(t Table, m *Meter) Table { return metered{t, m} }

type metered struct {
	Table
	meter *Meter
}

func (t metered) with(ctx context.Context) context.Context {
	if MeterFrom(ctx) != nil {
		return ctx
	}
	return WithMeter(ctx, t.meter)
}

func (t metered) Get(ctx context.Context, key Key, opts ...ReadOption) (Item, error) {
	return t.Table.Get(t.with(ctx), key, opts...)
}

func (t metered) BatchGet(ctx context.Context, keys []Key, opts ...ReadOption) ([]Item, error) {
	return t.Table.BatchGet(t.with(ctx), keys, opts...)
}

func (t metered) Put(ctx context.Context, put Put) error { return t.Table.Put(t.with(ctx), put) }

func (t metered) Update(ctx context.Context, update Update) (Item, error) {
	return t.Table.Update(t.with(ctx), update)
}

func (t metered) Delete(ctx context.Context, del Delete) error {
	return t.Table.Delete(t.with(ctx), del)
}

func (t metered) BatchWrite(ctx context.Context, writes []Write) error {
	return t.Table.BatchWrite(t.with(ctx), writes)
}

func (t metered) Transact(ctx context.Context, writes ...Write) error {
	return t.Table.Transact(t.with(ctx), writes...)
}

func (t metered) Query(ctx context.Context, q Query) (Page, error) {
	return t.Table.Query(t.with(ctx), q)
}
