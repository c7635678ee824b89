package sqltable

import (
	"context"
	"fmt"

	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

// sweepBatch is how many expired items one commit removes.
const sweepBatch = 100

// expiry is an item's place among those that expire: ordered by the second.
func expiry(item table.Item) (table.Key, bool) {
	ttl, ok := item[table.TTLAttribute]
	if !ok || ttl.Kind() != table.Number || ttl.Int() <= 0 {
		return table.Key{}, false
	}
	return table.Key{SK: expirySecond(ttl.Int())}, true
}

func expirySecond(n int64) string { return fmt.Sprintf("%019d", n) }

// Sweep removes the items whose TTL attribute has passed, as DynamoDB does by
// and by at no charge, and returns how many. Nothing depends on when it runs.
func (t *Table) Sweep(ctx context.Context) (int, error) {
	now := expirySecond(t.clock.Now().Unix())
	for removed := 0; ; {
		n := 0
		err := t.db.Write(ctx, func(conn *sqlite.Conn) (err error) {
			n, err = sweep(conn, now)
			return err
		})
		removed += n
		if err != nil || n < sweepBatch {
			return removed, err
		}
	}
}

func sweep(conn *sqlite.Conn, now string) (int, error) {
	stmt, err := conn.Prepare("SELECT pk, sk FROM entries WHERE idx = ? AND ipk = '' AND isk < ? LIMIT ?")
	if err != nil {
		return 0, fmt.Errorf("sqltable: %w", err)
	}
	stmt.BindText(1, table.TTLAttribute)
	stmt.BindText(2, now)
	stmt.BindInt64(3, sweepBatch)
	var dead []*write
	for {
		row, err := stmt.Step()
		if err != nil {
			return 0, fmt.Errorf("sqltable: %w", err)
		}
		if !row {
			break
		}
		dead = append(dead, &write{key: table.Key{PK: stmt.ColumnText(0), SK: stmt.ColumnText(1)}})
	}
	for _, w := range dead {
		if err := w.prepare(conn); err != nil {
			return 0, err
		}
	}
	return len(dead), applyAll(conn, dead)
}
