package faults

import (
	"context"
	"errors"

	"millrace/shared/platform/table"
)

// Table returns the process's view of the plan's store.
func (p *Process) Table() table.Table { return &faultyTable{p.plan.store, p, Tables} }

// Logs returns the same table for the log store, whose requests can fail
// separately.
func (p *Process) Logs() table.Table { return &faultyTable{p.plan.store, p, Logs} }

type faultyTable struct {
	table.Table // for methods that cannot fail by plan
	p           *Process
	port        Port
}

var _ table.Table = (*faultyTable)(nil)

// Get reads an item, or fails.
func (t *faultyTable) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	f := t.p.enter(ctx, t.port, false, "Get", key.SK)
	if err := errors.Join(f.before, f.after); err != nil {
		return nil, err
	}
	return t.Table.Get(ctx, key, opts...)
}

// BatchGet reads items, or fails.
func (t *faultyTable) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	f := t.p.enter(ctx, t.port, false, "BatchGet", "")
	if err := errors.Join(f.before, f.after); err != nil {
		return nil, err
	}
	return t.Table.BatchGet(ctx, keys, opts...)
}

// Query reads a page, or fails. A page of an index may be an old one.
func (t *faultyTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	f := t.p.enter(ctx, t.port, false, "Query", q.PK)
	if err := errors.Join(f.before, f.after); err != nil {
		return table.Page{}, err
	}
	if q.Index != "" && t.p.plan.lag() {
		return t.p.plan.replica.table.Query(ctx, q)
	}
	return t.Table.Query(ctx, q)
}

// write makes a write, or fails before or after it is applied.
func (t *faultyTable) write(ctx context.Context, operation string, keys []table.Key, do func() error) error {
	f := t.p.enter(ctx, t.port, true, operation, keys[0].SK)
	if f.before != nil {
		return f.before
	}
	err := do()
	if f.resend && operation != "Transact" { // transactions carry a token
		err = do()
	}
	if err == nil || f.resend {
		t.p.plan.noted(keys...)
	}
	if f.after != nil {
		return f.after // also for a rejected write, whose response is lost
	}
	return err
}

// Put stores an item, or fails.
func (t *faultyTable) Put(ctx context.Context, put table.Put) error {
	return t.write(ctx, "Put", []table.Key{put.Target()}, func() error { return t.Table.Put(ctx, put) })
}

// Update changes an item, or fails.
func (t *faultyTable) Update(ctx context.Context, u table.Update) (item table.Item, err error) {
	err = t.write(ctx, "Update", []table.Key{u.Key}, func() (err error) {
		item, err = t.Table.Update(ctx, u)
		return err
	})
	if err != nil {
		return nil, err
	}
	return item, nil
}

// Delete removes an item, or fails.
func (t *faultyTable) Delete(ctx context.Context, del table.Delete) error {
	return t.write(ctx, "Delete", []table.Key{del.Key}, func() error { return t.Table.Delete(ctx, del) })
}

// BatchWrite applies the writes, fails, or applies some and fails.
func (t *faultyTable) BatchWrite(ctx context.Context, writes []table.Write) error {
	if len(writes) == 0 {
		return t.Table.BatchWrite(ctx, writes)
	}
	f := t.p.enter(ctx, t.port, true, "BatchWrite", writes[0].Target().SK)
	if f.before != nil {
		return f.before
	}
	if f.after != nil {
		writes = writes[:t.p.plan.some(len(writes))]
	}
	err := t.Table.BatchWrite(ctx, writes)
	if err == nil {
		t.p.plan.noted(targets(writes)...)
	}
	if f.after != nil {
		return f.after
	}
	return err
}

// Transact applies the writes or none, or fails. A conflict names one of them.
func (t *faultyTable) Transact(ctx context.Context, writes ...table.Write) error {
	if len(writes) == 0 {
		return t.Table.Transact(ctx)
	}
	keys := targets(writes)
	err := t.write(ctx, "Transact", keys, func() error { return t.Table.Transact(ctx, writes...) })
	if errors.Is(err, table.ErrConflict) {
		reasons := make([]table.Reason, len(writes))
		reasons[t.p.plan.some(len(writes)-1)].Err = table.ErrConflict
		return &table.TransactionError{Reasons: reasons}
	}
	return err
}

func targets(writes []table.Write) []table.Key {
	keys := make([]table.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Target()
	}
	return keys
}

// some draws a number from 0 to most.
func (p *Plan) some(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.IntN(most + 1)
}
