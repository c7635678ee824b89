package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// sweepBatch is the number of expired items that one commit removes.
const sweepBatch = 100

// Sweep removes the items whose TTL attribute has passed, which DynamoDB does
// in the background and free of charge, and returns their number. Nothing
// depends on when it runs.
func (t *Table) Sweep(ctx context.Context) (removed int, err error) {
	ctx = table.Reclaiming(ctx)
	now := t.clock.Now().Unix()
	for {
		keys, err := t.expired(ctx, now)
		if err != nil || len(keys) == 0 {
			return removed, err
		}
		n := 0
		err = t.db.Commit(ctx, func(b *store.Batch) error {
			n = 0
			for _, key := range keys {
				w := &write{key: key}
				if err := w.prepare(b); err != nil {
					return err
				}
				// The expiry may have been extended since its entry was read.
				if at := expiry(w.old); at == 0 || at >= now {
					continue
				}
				if err := w.apply(b); err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += n
		if len(keys) < sweepBatch {
			return removed, nil
		}
	}
}

// expired returns the keys of expired items, up to sweepBatch.
func (t *Table) expired(ctx context.Context, now int64) (keys []table.Key, err error) {
	err = t.db.Scan(ctx, expiryBound(0), expiryBound(now), false, func(raw, _ []byte) (more bool, err error) {
		key, ok := cutKey(raw[len(expiryBound(0)):])
		if !ok {
			return false, fmt.Errorf("pebbletable: damaged key among those that expire")
		}
		keys = append(keys, key)
		return len(keys) < sweepBatch, nil
	})
	return keys, err
}
