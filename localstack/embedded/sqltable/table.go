// Package sqltable is the table port's driver on the embedded server's SQLite
// file. It enforces DynamoDB's limits and counts the capacity DynamoDB would
// charge, so that what would fail or cost there shows here.
package sqltable

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

// schema is the tables' history; a step is never changed, only added.
//
// An item's keys are columns and the rest of its attributes one blob, see
// table.AppendBinary. entries holds the places of items in indexes, and under
// the name of the TTL attribute when they expire.
var schema = []string{`
CREATE TABLE items (
	pk   TEXT NOT NULL,
	sk   TEXT NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (pk, sk)
) WITHOUT ROWID;
CREATE TABLE entries (
	idx TEXT NOT NULL,
	ipk TEXT NOT NULL,
	isk TEXT NOT NULL,
	pk  TEXT NOT NULL,
	sk  TEXT NOT NULL,
	PRIMARY KEY (idx, ipk, isk, pk, sk)
) WITHOUT ROWID;
`}

// Table is the driver. Reads see everything committed, consistent or not, and
// indexes are up to date at once; both count as they would on DynamoDB.
//
// What is written goes to the store's journal and into memory, from where it is
// folded into the tables a moment later; a read looks into both, the memory
// first. The memory's items are never changed, so callers get
// copies, unless they ask for the table without.
type Table struct {
	db     *store.DB
	clock  clock.Clock
	memory *memory
	log    *store.Owner
	staged map[table.Key]*staged // what the group that is made has changed
	shared *Table                // the same without copies; itself, if it is that
}

var (
	_ table.Table  = (*Table)(nil)
	_ table.Sharer = (*Table)(nil)
)

// New makes the driver's tables in the store, or brings them up to date. A
// Table made before on the same store can be written no longer.
func New(db *store.DB, now clock.Clock) (*Table, error) {
	t := &Table{db: db, clock: now, memory: newMemory(), staged: map[table.Key]*staged{}}
	var err error
	if t.log, err = db.Attach("table", t, replay, schema...); err != nil {
		return nil, err
	}
	shared := *t
	t.shared, shared.shared = &shared, &shared
	return t, nil
}

// Shared is the table without the copies.
func (t *Table) Shared() table.Table { return t.shared }

// own is an item as a caller gets it.
func (t *Table) own(item table.Item) table.Item {
	if t.shared == t {
		return item
	}
	return maps.Clone(item)
}

// Check reads the table's state.
func (t *Table) Check(ctx context.Context) error {
	return t.db.Read(ctx, func(conn *sqlite.Conn) error {
		_, err := load(conn, table.Key{PK: "-", SK: "-"})
		return err
	})
}

// Get returns the item, or table.ErrNotFound.
func (t *Table) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if err := table.CheckKey(key); err != nil {
		return nil, err
	}
	l, err := t.lookup(ctx, key)
	if err != nil {
		return nil, err
	}
	if m := table.MeterFrom(ctx); m != nil {
		m.Add(table.OpGet, table.Units{Read: table.ReadUnits(l.size, consistent(opts))})
	}
	if l.item == nil {
		return nil, table.ErrNotFound
	}
	return t.own(l.item), nil
}

// BatchGet returns those items that exist, in the order of keys.
func (t *Table) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if err := table.CheckKeys(keys); err != nil {
		return nil, err
	}
	var items []table.Item
	meter := table.MeterFrom(ctx)
	for len(keys) > 0 {
		batch := keys[:min(len(keys), table.MaxBatchGet)]
		keys = keys[len(batch):]
		units := 0.0
		for _, key := range batch {
			l, err := t.lookup(ctx, key)
			if err != nil {
				return nil, err
			}
			units += table.ReadUnits(l.size, consistent(opts))
			if l.item != nil {
				items = append(items, t.own(l.item))
			}
		}
		meter.Add(table.OpBatchGet, table.Units{Read: units})
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

// load reads an item by its key, nil if there is none.
func load(conn *sqlite.Conn, key table.Key) (table.Item, error) {
	stmt, err := conn.Prepare("SELECT data FROM items WHERE pk = ? AND sk = ?")
	if err != nil {
		return nil, fmt.Errorf("sqltable: %w", err)
	}
	stmt.BindText(1, key.PK)
	stmt.BindText(2, key.SK)
	row, err := stmt.Step()
	if err != nil {
		return nil, fmt.Errorf("sqltable: %w", err)
	}
	if !row {
		return nil, nil
	}
	item, err := decode(key, stmt.ColumnText(0))
	return item, errors.Join(err, stmt.Reset())
}

// decode makes an item of its key and its other attributes' encoding.
func decode(key table.Key, data string) (table.Item, error) {
	item, err := table.DecodeBinary(data, 2)
	if err != nil {
		return nil, fmt.Errorf("sqltable: item (%s, %s): %w", key.PK, key.SK, err)
	}
	item["pk"], item["sk"] = table.V(key.PK), table.V(key.SK)
	return item, nil
}

// encode is the form in which an item's attributes other than the key are kept.
func encode(item table.Item) []byte {
	return table.AppendBinary(make([]byte, 0, 512), item, "pk", "sk")
}
