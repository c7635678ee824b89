package sqltable

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

// A partition with no more rows and bytes than these is read as a whole when one
// of its rows is looked for.
const (
	probeRows  = 8
	probeBytes = 64 << 10
)

// lookup finds an item in the memory or in the database.
func (t *Table) lookup(ctx context.Context, key table.Key) (look, error) {
	l := t.memory.get(key)
	if l.known {
		return l, ctx.Err()
	}
	err := t.db.Read(ctx, func(conn *sqlite.Conn) error {
		if !t.memory.large(key.PK) {
			whole, err := t.probe(conn, key.PK, l.lost)
			if err != nil {
				return err
			}
			if now := t.memory.get(key); now.known {
				l = now
				return nil
			}
			if whole != nil { // it was not kept: rows were forgotten meanwhile
				l.item = whole[key.SK]
				l.size = l.item.Size()
				return nil
			}
		}
		item, err := load(conn, key)
		if err != nil {
			return err
		}
		l.item, l.size = item, item.Size()
		t.memory.remember(key.PK, l.lost, false, map[string]table.Item{key.SK: item})
		return nil
	})
	return l, err
}

// probe reads a partition of the database as a whole, if it is small, and has
// the memory keep it; nil if it is not small.
func (t *Table) probe(conn *sqlite.Conn, pk string, lost uint64) (map[string]table.Item, error) {
	stmt, err := conn.Prepare("SELECT sk, data FROM items WHERE pk = ? LIMIT ?")
	if err != nil {
		return nil, fmt.Errorf("sqltable: %w", err)
	}
	stmt.BindText(1, pk)
	stmt.BindInt64(2, probeRows+1)
	read, size := map[string]table.Item{}, 0
	for {
		more, err := stmt.Step()
		if err != nil {
			return nil, fmt.Errorf("sqltable: %w", err)
		}
		if !more {
			t.memory.remember(pk, lost, true, read)
			return read, nil
		}
		size += stmt.ColumnLen(1)
		if len(read) == probeRows || size > probeBytes {
			t.memory.remember(pk, lost, false, nil)
			return nil, stmt.Reset()
		}
		key := table.Key{PK: pk, SK: stmt.ColumnText(0)}
		item, err := decode(key, stmt.ColumnText(1))
		if err != nil {
			return nil, errors.Join(err, stmt.Reset())
		}
		read[key.SK] = item
	}
}
