// Package pebbletable is the table port's driver on the embedded server's store.
// It enforces DynamoDB's limits and counts the capacity DynamoDB would charge, so
// that what would fail or cost there shows here. On a store in memory it is the
// table of tests and simulations.
package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Table is the driver. Reads see everything committed, consistent or not, and
// indexes are up to date at once; both count as they would on DynamoDB.
type Table struct {
	db    *store.DB
	clock clock.Clock
}

var _ table.Table = (*Table)(nil)

// New returns the table of a store; the clock says what has expired.
func New(db *store.DB, now clock.Clock) *Table { return &Table{db: db, clock: now} }

// Check reads from the table. Errors: store.ErrDamaged from when a read met what is
// damaged; errs.Unavailable, with the reason, also while writes are refused for want
// of room.
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

// BatchGet returns those items that exist, in the order of keys.
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
		units := 0.0
		err := t.db.View(ctx, func(r *store.Reader) error {
			for _, key := range batch {
				data, found, err := r.Get(itemKey(key))
				if err != nil {
					return err
				}
				var item table.Item
				left := 0
				if found {
					if item, left, err = project(key, data, o.Only); err != nil {
						return err
					}
					items = append(items, item)
				}
				units += table.ReadUnits(item.Size()+left, o.Consistent)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		table.MeterFrom(ctx).Add(table.OpBatchGet, table.Units{Read: units})
	}
	return items, nil
}

// load reads an item by its key, nil if there is none.
func load(from interface {
	Get(key []byte) (value string, found bool, err error)
}, key table.Key) (table.Item, error) {
	data, found, err := from.Get(itemKey(key))
	if err != nil || !found {
		return nil, err
	}
	return decode(key, data)
}

// decode makes an item of its key and its other attributes' encoding.
func decode(key table.Key, data string) (table.Item, error) {
	item, err := table.DecodeBinary(data, 2)
	if err != nil {
		return nil, fmt.Errorf("item (%s, %s): %w", key.PK, key.SK, err)
	}
	item["pk"], item["sk"] = table.V(key.PK), table.V(key.SK)
	return item, nil
}

// project makes an item of those attributes that are named, all if none are.
// left is the size of what it leaves out.
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

// encode is the form in which an item's attributes other than the key are kept.
func encode(item table.Item) []byte {
	return table.AppendBinary(make([]byte, 0, 512), item, "pk", "sk")
}
