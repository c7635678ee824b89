package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// sweepBatch is how many expired items one commit removes.
const sweepBatch = 100

// Sweep removes the items whose TTL attribute has passed, as DynamoDB does in its
// own time and at no charge, and returns how many. Nothing depends on when it
// runs.
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
				// It may have been prolonged since its entry was read.
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

// expired lists items whose time has passed, up to sweepBatch.
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
