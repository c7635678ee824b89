package faults

import (
	"context"
	"errors"
	"maps"
	"sync"

	"millrace/shared/platform/table"
)

// Lagging returns a table whose reads always see the state before an item's
// last write, unless they are consistent. Queries of indexes do not lag; see
// [Rates] for that.
func Lagging(t table.Table) table.Table {
	return &lagging{Table: t, before: map[table.Key]table.Item{}}
}

type lagging struct {
	table.Table
	mu     sync.Mutex
	before map[table.Key]table.Item // nil: the item did not exist
}

// write remembers the previous items, if the write succeeds.
func (l *lagging) write(ctx context.Context, keys []table.Key, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := map[table.Key]table.Item{}
	for _, key := range keys {
		item, err := l.Table.Get(ctx, key, table.Consistent)
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			return err
		}
		old[key] = item
	}
	err := do()
	if err == nil {
		maps.Copy(l.before, old)
	}
	return err
}

// Put stores an item.
func (l *lagging) Put(ctx context.Context, p table.Put) error {
	item, err := table.Marshal(p.Item)
	if err != nil {
		return err
	}
	return l.write(ctx, []table.Key{item.Key()}, func() error { return l.Table.Put(ctx, p) })
}

// Update changes an item.
func (l *lagging) Update(ctx context.Context, u table.Update) (item table.Item, err error) {
	err = l.write(ctx, []table.Key{u.Key}, func() (err error) {
		item, err = l.Table.Update(ctx, u)
		return err
	})
	return item, err
}

// Delete removes an item.
func (l *lagging) Delete(ctx context.Context, d table.Delete) error {
	return l.write(ctx, []table.Key{d.Key}, func() error { return l.Table.Delete(ctx, d) })
}

// BatchWrite applies the writes.
func (l *lagging) BatchWrite(ctx context.Context, writes []table.Write) error {
	return l.write(ctx, targets(writes), func() error { return l.Table.BatchWrite(ctx, writes) })
}

// Transact applies the writes.
func (l *lagging) Transact(ctx context.Context, writes ...table.Write) error {
	return l.write(ctx, targets(writes), func() error { return l.Table.Transact(ctx, writes...) })
}

// lags returns the previous state of an item.
func (l *lagging) lags(key table.Key) (item table.Item, written bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	item, written = l.before[key]
	return maps.Clone(item), written
}

// Get reads an item.
func (l *lagging) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	o, err := table.NewReadOptions(opts)
	if err != nil {
		return nil, err
	}
	item, written := l.lags(key)
	switch {
	case !written || o.Consistent:
		return l.Table.Get(ctx, key, opts...)
	case item == nil:
		return nil, table.ErrNotFound
	}
	return item.Project(o.Only), nil
}

// BatchGet reads items.
func (l *lagging) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	o, err := table.NewReadOptions(opts)
	if err != nil {
		return nil, err
	}
	if o.Consistent {
		return l.Table.BatchGet(ctx, keys, opts...)
	}
	var items []table.Item
	for _, key := range keys {
		item, err := l.Get(ctx, key, opts...)
		switch {
		case err == nil:
			items = append(items, item)
		case !errors.Is(err, table.ErrNotFound):
			return nil, err
		}
	}
	return items, nil
}

// Query reads a page.
func (l *lagging) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := l.Table.Query(ctx, q)
	if err != nil || q.Consistent || q.Index != "" {
		return page, err
	}
	now := page.Items
	page.Items = nil
	for _, item := range now {
		if old, written := l.lags(item.Key()); written {
			if old == nil || !table.Holds(q.Filter, old) {
				continue
			}
			item = old.Project(q.Only)
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}
