package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// expiring is how many entries expire at once.
const expiring = 16

// expire has the entries of days expire whose retention is over, if they are
// exported and digested, and returns the first day whose entries remain. A day
// whose export does not fit its digest remains, with all days after it.
func (s *service) expire(ctx context.Context, org string, chain audit.Chain, next audit.Day) (audit.Day, error) {
	day := max(chain.Kept, chain.First)
	keep, limited := s.quota.Kept(org, quota.AuditDays)
	for range maxDays {
		if !limited || day >= next || s.clock.Now().Before(day.End().Add(keep)) {
			break
		}
		fault, err := s.expireDay(ctx, org, day)
		if err != nil {
			return day, fmt.Errorf("expire audit entries of %s: %w", day, err)
		}
		if fault != "" {
			s.log.ErrorContext(ctx, "audit entries do not expire: verify the log", "org_id", org, "day", string(day), "fault", fault)
			break
		}
		day = day.Next()
	}
	return day, nil
}

// expireDay has the entries of a day expire, unless it returns why not. It may be
// repeated.
func (s *service) expireDay(ctx context.Context, org string, day audit.Day) (fault string, err error) {
	d, err := table.Load[audit.Digest](ctx, s.table, audit.DigestKey(org, day), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return "no digest of the day is stored", nil
	}
	if err != nil {
		return "", err
	}
	if d.Export == "" { // digested by a version that did not export
		if _, err := audit.Export(ctx, s.table, s.blob, org, day, d.MadeAt); err != nil {
			return "", err
		}
	}
	//guard:audit/export-before-expiry false
	if fault, err := d.Exported(ctx, s.blob, nil); fault != "" || err != nil {
		return fault, err
	}
	if d.Expired == 0 {
		_, err := s.table.Update(ctx, table.Update{Key: d.Key, If: table.IsStored(), Do: []table.Action{
			table.Set(audit.AttrExport, audit.ExportKey(org, day)), table.Set(audit.AttrExpired, int64(clock.ToMillis(s.clock.Now()))),
		}})
		if err != nil {
			return "", err
		}
	}
	group, updates := errgroup.WithContext(ctx)
	group.SetLimit(expiring)
	for r, err := range audit.Entries(ctx, s.table, org, day.Begin(), day.End()) {
		if err != nil {
			_ = group.Wait()
			return "", err
		}
		if r.Expires != 0 {
			continue
		}
		group.Go(func() error {
			_, err := s.table.Update(updates, table.Update{
				Key: r.Key, If: table.IsStored(), Do: []table.Action{table.Set(table.TTLAttribute, s.clock.Now().Unix())},
			})
			if errors.Is(err, table.ErrConditionFailed) { // removed
				return nil
			}
			return err
		})
	}
	return "", group.Wait()
}

// verifyExport verifies an exported day, and that the table has no entries of it
// that were not exported. It returns what does not fit, "" if all does.
func (s *service) verifyExport(ctx context.Context, d *audit.Digest) (fault string, err error) {
	if d.Expired == 0 { // the table has all entries of the day, and is compared with the digest
		return d.Exported(ctx, s.blob, nil)
	}
	left := map[[sha256.Size]byte]bool{}
	for r, err := range audit.Entries(ctx, s.table, d.OrgID, d.Day.Begin(), d.Day.End()) {
		if err != nil {
			return "", err
		}
		left[r.Line()] = true
	}
	fault, err = d.Exported(ctx, s.blob, func(line [sha256.Size]byte) { delete(left, line) })
	if fault == "" && err == nil && len(left) > 0 {
		fault = fmt.Sprintf("%d entries are stored that were not digested", len(left))
	}
	return fault, err
}
