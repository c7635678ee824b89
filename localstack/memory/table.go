// Package memory holds the table and the queues in memory: drivers of both
// ports with their full semantics and no listener, file or goroutine of their
// own, so that they work inside a testing/synctest bubble and cost little. A
// simulation makes thousands of them. Nothing survives the process.
package memory

import (
	"context"
	"maps"
	"sync"

	"millrace/shared/clock"
	"millrace/shared/table"
)

// Table is the table port's driver. Reads see everything committed, consistent
// or not, and indexes are up to date at once; both count as they would on
// DynamoDB.
type Table struct {
	clock clock.Clock

	mu    sync.RWMutex
	parts map[partition]rows
}

var _ table.Table = (*Table)(nil)

// NewTable makes an empty table; the clock says what has expired.
func NewTable(now clock.Clock) *Table {
	return &Table{clock: now, parts: map[partition]rows{}}
}

// Check reports nil: the table is always there.
func (t *Table) Check(ctx context.Context) error { return ctx.Err() }

// Get returns the item, or table.ErrNotFound.
func (t *Table) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if err := table.CheckKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.RLock()
	item := t.load(key)
	t.mu.RUnlock()
	table.MeterFrom(ctx).Add(table.OpGet, table.Units{Read: table.ReadUnits(item.Size(), consistent(opts))})
	if item == nil {
		return nil, table.ErrNotFound
	}
	return maps.Clone(item), nil
}

// BatchGet returns those items that exist, in the order of keys.
func (t *Table) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if err := table.CheckKeys(keys); err != nil {
		return nil, err
	}
	var items []table.Item
	for len(keys) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch := keys[:min(len(keys), table.MaxBatchGet)]
		keys = keys[len(batch):]
		units := 0.0
		t.mu.RLock()
		for _, key := range batch {
			item := t.load(key)
			units += table.ReadUnits(item.Size(), consistent(opts))
			if item != nil {
				items = append(items, maps.Clone(item))
			}
		}
		t.mu.RUnlock()
		table.MeterFrom(ctx).Add(table.OpBatchGet, table.Units{Read: units})
	}
	return items, nil
}

func consistent(opts []table.ReadOption) bool {
	var o table.ReadOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o.Consistent
}

// Sweep removes the items whose TTL attribute has passed and returns how many.
// Nothing depends on when it runs.
func (t *Table) Sweep() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now().Unix()
	var dead []*write
	for part, rows := range t.parts {
		if part.index != "" {
			continue
		}
		for _, r := range rows {
			if ttl, ok := r.item[table.TTLAttribute]; ok && ttl.Kind() == table.Number && ttl.Int() > 0 && ttl.Int() < now {
				dead = append(dead, &write{key: r.key, old: r.item})
			}
		}
	}
	for _, w := range dead {
		t.apply(w)
	}
	return len(dead)
}
