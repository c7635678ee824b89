package sqltable

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/table"
)

// Transact applies all of the writes or none. One writer runs one transaction
// at a time, so there is never a conflict.
func (t *Table) Transact(ctx context.Context, writes ...table.Write) error {
	if err := table.CheckTransaction(writes); err != nil {
		return err
	}
	plans := make([]*write, len(writes))
	for i, w := range writes {
		var err error
		if plans[i], err = plan(w); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	err := t.commit(ctx, func() error { return t.prepareAll(plans) }, plans...)
	if err == nil || errors.As(err, new(*table.TransactionError)) {
		chargeAll(table.MeterFrom(ctx), table.OpTransact, plans, table.TransactionFactor)
	}
	return err
}

// prepareAll prepares every write, so that nothing is written if one is unfit.
func (t *Table) prepareAll(plans []*write) error {
	cancelled := false
	size := 0
	reasons := make([]table.Reason, len(plans))
	for i, p := range plans {
		err := p.prepare(t)
		switch {
		case err == nil:
			size += max(p.oldSize, p.newSize)
			continue
		case errors.Is(err, table.ErrConditionFailed):
			reasons[i] = table.Reason{Err: table.ErrConditionFailed, Old: t.own(p.old)}
		case errors.Is(err, table.ErrInvalid):
			reasons[i].Err = table.ErrInvalid
		case errors.Is(err, table.ErrLimit):
			reasons[i].Err = table.ErrLimit
		default:
			return err
		}
		cancelled = true
	}
	if cancelled {
		for _, p := range plans {
			p.void()
		}
		return &table.TransactionError{Reasons: reasons}
	}
	if size > table.MaxTransactBytes {
		return fmt.Errorf("%w: transaction of %d bytes, at most %d", table.ErrLimit, size, table.MaxTransactBytes)
	}
	return nil
}
