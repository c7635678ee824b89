// Package pebbletable is the table driver on the embedded server's store. It
// enforces DynamoDB's limits and counts the capacity that DynamoDB would
// charge, so that requests that would fail or be expensive there are noticed
// here. On an in-memory store it provides the table of tests and simulations.
package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Table is the driver. Reads see all committed writes, consistent or not, and
// indexes are always up to date; reads still count as on DynamoDB.
type Table struct {
	db    *store.DB
	clock clock.Clock
}

var _ table.Table = (*Table)(nil)

// New returns the table of a store. now determines what has expired.
func New(db *store.DB, now clock.Clock) *Table { return &Table{db: db, clock: now} }

// Check reads from the table. Errors: store.ErrDamaged once a read has met
// damaged data; errs.Unavailable, with the reason, also while writes are
// rejected for lack of disk space.
func (t *Table) Check(ctx context.Context) error {
	if _, _, err := t.db.Get(ctx, itemKey(table.Key{PK: "-", SK: "-"})); err != nil {
		return err
	}
	if err := t.db.Damaged(); err != nil {
		return err
	}
	return t.db.Writable(ctx)
}

// Get returns the item, or table.ErrNotFound.
func (t *Table) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if err := table.CheckKey(key); err != nil {
		return nil, err
	}
	o, err := table.NewReadOptions(opts)
	if err != nil {
		return nil, err
	}
	data, found, err := t.db.Get(ctx, itemKey(key))
	if err != nil {
		return nil, err
	}
	var item table.Item
	left := 0
	if found {
		if item, left, err = project(key, data, o.Only); err != nil {
			return nil, err
		}
	}
	if m := table.MeterFrom(ctx); m != nil {
		m.Add(table.OpGet, table.Units{Read: table.ReadUnits(item.Size()+left, o.Consistent)})
	}
	if item == nil {
		return nil, table.ErrNotFound
	}
	return item, nil
}

// BatchGet returns the existing items, in the order of keys.
func (t *Table) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if err := table.CheckKeys(keys); err != nil {
		return nil, err
	}
	o, err := table.NewReadOptions(opts)
	if err != nil {
		return nil, err
	}
	var items []table.Item
	for len(keys) > 0 {
		batch := keys[:min(len(keys), table.MaxBatchGet)]
		keys = keys[len(batch):]
		raw := make([][]byte, len(batch))
		for i, key := range batch {
			raw[i] = itemKey(key)
		}
		values, err := t.db.GetAll(ctx, raw)
		if err != nil {
			return nil, err
		}
		units := 0.0
		for i, value := range values {
			var item table.Item
			left := 0
			if value.Found {
				if item, left, err = project(batch[i], value.Data, o.Only); err != nil {
					return nil, err
				}
				items = append(items, item)
			}
			units += table.ReadUnits(item.Size()+left, o.Consistent)
		}
		table.MeterFrom(ctx).Add(table.OpBatchGet, table.Units{Read: units})
	}
	return items, nil
}

// load reads an item by its key. It returns nil if there is none.
func load(from interface {
	Get(key []byte) (value string, found bool, err error)
}, key table.Key) (table.Item, error) {
	data, found, err := from.Get(itemKey(key))
	if err != nil || !found {
		return nil, err
	}
	return decode(key, data)
}

// decode returns an item from its key and its other attributes' encoding.
func decode(key table.Key, data string) (table.Item, error) {
	item, err := table.DecodeBinary(data, 2)
	if err != nil {
		return nil, fmt.Errorf("item (%s, %s): %w", key.PK, key.SK, err)
	}
	item["pk"], item["sk"] = table.V(key.PK), table.V(key.SK)
	return item, nil
}

// project returns an item with only the named attributes, or all if none are
// named. left is the size of the others.
func project(key table.Key, data string, only []string) (item table.Item, left int, err error) {
	if len(only) == 0 {
		item, err = decode(key, data)
		return item, 0, err
	}
	item, left, err = table.DecodeBinaryOnly(data, only, 2)
	if err != nil {
		return nil, 0, fmt.Errorf("item (%s, %s): %w", key.PK, key.SK, err)
	}
	item["pk"], item["sk"] = table.V(key.PK), table.V(key.SK)
	return item, left, nil
}

// encode returns the encoding of an item's attributes other than the key.
func encode(item table.Item) []byte {
	return table.AppendBinary(make([]byte, 0, 512), item, "pk", "sk")
}
