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
		if err := t.db.Sync(); err != nil { // what is in the journal has no entry yet
			return removed, err
		}
		keys, err := t.expired(ctx, now)
		if err != nil {
			return removed, err
		}
		n := 0
		err = t.log.Commit(ctx, func(record []byte) ([]byte, error) {
			n = 0
			var dead []*write
			for _, key := range keys {
				w := &write{key: key}
				if err := w.prepare(t); err != nil {
					return record, err
				}
				// It may have been prolonged since its entry was read.
				if at, ok := expiry(w.old); ok && at.SK < now {
					dead = append(dead, w)
				}
			}
			for _, w := range dead {
				record = w.stage(t, record)
			}
			n = len(dead)
			return record, nil
		})
		removed += n
		if err != nil || len(keys) < sweepBatch {
			return removed, err
		}
	}
}

// expired lists items whose time has passed, up to sweepBatch.
func (t *Table) expired(ctx context.Context, now string) (keys []table.Key, err error) {
	err = t.db.Read(ctx, func(conn *sqlite.Conn) error {
		stmt, err := conn.Prepare("SELECT pk, sk FROM entries WHERE idx = ? AND ipk = '' AND isk < ? LIMIT ?")
		if err != nil {
			return fmt.Errorf("sqltable: %w", err)
		}
		stmt.BindText(1, table.TTLAttribute)
		stmt.BindText(2, now)
		stmt.BindInt64(3, sweepBatch)
		for {
			row, err := stmt.Step()
			if err != nil {
				return fmt.Errorf("sqltable: %w", err)
			}
			if !row {
				return nil
			}
			keys = append(keys, table.Key{PK: stmt.ColumnText(0), SK: stmt.ColumnText(1)})
		}
	})
	return keys, err
}
