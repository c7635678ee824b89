package launch

import (
	"context"
	"errors"
	"slices"

	"millrace/shared/platform/table"
)

// environmentTries bounds how often the transaction that accepts a run is tried when
// others that accept runs in its environment hinder it.
const environmentTries = 8

// transact writes the transaction that accepts a run, again with another shard of its
// environment as long as only that is held by another.
func (l *Launcher) transact(ctx context.Context, p *plan, writes []table.Write) error {
	err := l.Table.Transact(ctx, writes...)
	for try := 1; try < environmentTries && p.hindered(err); try++ {
		writes = slices.Replace(slices.Clone(writes), p.envAt, p.envAt+1, p.env.Accept(p.run.ID, try)...)
		err = l.Table.Transact(ctx, writes...)
	}
	return err
}

// hindered reports whether a transaction failed only because another holds the item of
// the environment.
func (p *plan) hindered(err error) bool {
	failed, ok := errors.AsType[*table.TransactionError](err)
	if !ok {
		return false
	}
	for i, r := range failed.Reasons {
		if r.Err != nil && (i != p.envAt || !errors.Is(r.Err, table.ErrConflict)) {
			return false
		}
	}
	return len(p.env.Accept(p.run.ID, 0)) > 0
}

// gone reports whether a transaction failed because the environment was deleted
// meanwhile.
func (p *plan) gone(err error) bool {
	failed, ok := errors.AsType[*table.TransactionError](err)
	if !ok || len(p.env.Accept(p.run.ID, 0)) == 0 {
		return false
	}
	_, gone := failed.Failed(p.envAt)
	return gone
}
