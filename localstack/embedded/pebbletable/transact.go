package pebbletable

import (
	"context"
	"errors"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// Transact applies all of the writes or none. Commits are serialized, so there
// are no conflicts.
func (t *Table) Transact(ctx context.Context, writes ...table.Write) error {
	if err := table.CheckTransaction(writes); err != nil {
		return err
	}
	plans, err := planAll(writes)
	if err != nil {
		return err
	}
	err = t.db.Commit(ctx, func(b *store.Batch) error {
		if err := prepareAll(b, plans); err != nil {
			return err
		}
		for _, w := range plans {
			if err := w.apply(b); err != nil {
				return err
			}
		}
		return nil
	})
	_, cancelled := errors.AsType[*table.TransactionError](err)
	if err != nil && !cancelled {
		return err
	}
	m, units := table.MeterFrom(ctx), 0.0
	for _, w := range plans {
		if cancelled { // costs the size of the stored items, and nothing for indexes
			units += table.WriteUnits(w.oldSize)
		} else {
			units += w.charge(m)
		}
	}
	m.Add(table.OpTransact, table.Units{Write: units * table.TransactionFactor})
	return err
}

// prepareAll prepares every write, so that nothing is written if one fails.
func prepareAll(b *store.Batch, plans []*write) error {
	reasons, size, cancelled := make([]table.Reason, len(plans)), 0, false
	for i, w := range plans {
		err := w.prepare(b)
		switch {
		case err == nil:
			size += max(w.oldSize, w.newSize)
			continue
		case errors.Is(err, table.ErrConditionFailed):
			reasons[i] = table.Reason{Err: table.ErrConditionFailed, Old: w.old}
		case errors.Is(err, table.ErrInvalid):
			reasons[i].Err = table.ErrInvalid
		case errors.Is(err, table.ErrLimit):
			reasons[i].Err = table.ErrLimit
		default:
			return err
		}
		cancelled = true
	}
	if cancelled { //guard:store/transaction and len(plans) == 1
		return &table.TransactionError{Reasons: reasons}
	}
	if size > table.MaxTransactBytes {
		return fmt.Errorf("%w: transaction of %d bytes, at most %d", table.ErrLimit, size, table.MaxTransactBytes)
	}
	return nil
}
