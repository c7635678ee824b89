package audit

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/account/audit"
	"millrace/shared/account/retention"
	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// maxDays bounds the days that one task digests, after a long time in which
// nothing was digested.
const maxDays = 60

func digests(d fn.Deps) fn.MessageHandler {
	s := &service{table: d.Table, blob: d.Blob, signer: d.Signer, locked: d.Locked, quota: d.Quota, clock: d.Clock, log: d.Log}
	return d.Due(s.digest)
}

// digest digests the days of a workspace that are over and were not digested. A
// task that comes twice, or is interrupted, stores no digest twice.
func (s *service) digest(ctx context.Context, task due.Task) error {
	org := task.Org()
	chain, err := table.Load[audit.Chain](ctx, s.table, audit.ChainKey(org), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read chain: %w", err)
	}
	next, now := chain.Next, s.clock.Now()
	for range maxDays {
		if !next.Over(now) {
			break
		}
		if err := s.digestDay(ctx, org, chain.First, next); err != nil {
			return fmt.Errorf("digest %s: %w", next, err)
		}
		next = next.Next()
	}
	if chain.Kept == "" { // it may be older than the removal of objects
		err := s.table.Put(ctx, retention.Begin(org, now))
		if err != nil && !errors.Is(err, table.ErrConditionFailed) {
			return err
		}
	}
	kept, err := s.expire(ctx, org, chain, next)
	if err != nil {
		return err
	}
	_, err = s.table.Update(ctx, due.Move(task, next.DueFor(org), table.Set(audit.AttrNext, string(next)), table.Set(audit.AttrKept, string(kept))))
	if errors.Is(err, table.ErrConditionFailed) {
		return nil // the task was handled elsewhere
	}
	return err
}

// digestDay exports a day and stores its digest, unless it is stored.
func (s *service) digestDay(ctx context.Context, org string, first, day audit.Day) error {
	d, err := audit.Export(ctx, s.table, s.blob, org, day, clock.ToMillis(s.clock.Now()))
	if err != nil {
		return err
	}
	if day != first {
		before, err := table.Load[audit.Digest](ctx, s.table, audit.DigestKey(org, day.Previous()), table.Consistent)
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			return err
		}
		if err == nil {
			d.Previous = before.Link()
		} else {
			d.Previous = missing // the digest was removed; this is found when the log is verified
		}
	}
	if d.Signature, err = s.signer.Sign(ctx, []byte(d.Message())); err != nil {
		return err
	}
	err = s.table.Put(ctx, table.Put{Item: d, If: table.IsNew()}) //guard:audit/digest-once drop field If
	if errors.Is(err, table.ErrConditionFailed) {                 // by an earlier attempt, which may have stored no copy
		d, err = table.Load[audit.Digest](ctx, s.table, d.Key, table.Consistent)
	}
	if err != nil || s.locked == nil {
		return err
	}
	return audit.Lock(ctx, s.locked, s.table, &d)
}

// missing is the link to a digest that was not there. It is no SHA-256.
const missing = "missing"
