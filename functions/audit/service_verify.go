package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

const (
	// verifyFor is how long one request verifies, to the end of a day.
	verifyFor = time.Minute
	// late is how long after its end a day may be without a digest, when the
	// service did not run.
	late = 48 * time.Hour
)

// verify computes the digests of days anew. Errors: errs.Unprocessable for
// invalid days.
func (s *service) verify(ctx context.Context, in *verifyIn) (httpapi.Stream[VerificationResponse], error) {
	org := tenant.From(ctx).OrgID
	chain, err := table.Load[audit.Chain](ctx, s.table, audit.ChainKey(org), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		chain, err = s.begin(ctx, org)
	}
	if err != nil {
		return httpapi.Stream[VerificationResponse]{}, err
	}
	day, last, err := in.days(chain, audit.DayOf(s.clock.Now()))
	if err != nil {
		return httpapi.Stream[VerificationResponse]{}, err
	}
	return httpapi.Wait[VerificationResponse](func(ctx context.Context) (VerificationResponse, error) {
		return s.verified(ctx, org, chain.First, day, last)
	}), nil
}

// begin stores the chain of a workspace that has none: it is older than the
// digests, which begin today, or its chain was removed.
func (s *service) begin(ctx context.Context, org string) (audit.Chain, error) {
	at := s.clock.Now()
	stored, err := s.table.Query(ctx, table.Query{PK: audit.DigestPartition(org), Limit: 1, Consistent: true})
	if err != nil {
		return audit.Chain{}, err
	}
	if len(stored.Items) > 0 {
		at = audit.Day(stored.Items[0].Key().SK).Begin()
	}
	put := audit.Begin(org, at)
	if err = s.table.Put(ctx, put); errors.Is(err, table.ErrConditionFailed) { // by another request
		err = nil
	}
	return put.Item.(audit.Chain), err
}

// days returns the first and the last day to verify.
func (in *verifyIn) days(chain audit.Chain, today audit.Day) (day, last audit.Day, err error) {
	day, last = chain.First, today.Previous()
	for name, c := range map[string]struct {
		text string
		day  *audit.Day
	}{"start_date": {in.StartDate, &day}, "end_date": {in.EndDate, &last}} {
		if c.text == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, c.text); err != nil {
			return day, last, errs.Field([]any{"query", name}, c.text, "not a day such as 2026-01-31")
		}
		*c.day = audit.Day(c.text)
	}
	return max(day, chain.First), min(last, today.Previous()), nil
}

// verified verifies the days from day to last, until the first that does not
// fit.
func (s *service) verified(ctx context.Context, org string, first, day, last audit.Day) (out VerificationResponse, err error) {
	out.Status = "intact"
	if day > last {
		return out, nil
	}
	out.FirstDay = optional(string(day))
	link := ""
	if day != first {
		before, err := table.Load[audit.Digest](ctx, s.table, audit.DigestKey(org, day.Previous()), table.Consistent)
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			return out, err
		}
		link = before.Link()
	}
	key, err := s.signer.PublicKey(ctx)
	if err != nil {
		return out, err
	}
	began := s.clock.Now()
	for ; day <= last; day = day.Next() {
		if out.Days > 0 && s.clock.Now().Sub(began) > verifyFor {
			out.NextDate = optional(string(day))
			return out, nil
		}
		d, fault, err := s.verifyDay(ctx, key, org, day, link)
		copied := false
		if err == nil && fault == "" {
			copied, fault, err = s.compareLocked(ctx, org, day, &d)
		}
		switch {
		case err != nil:
			return out, err
		case fault != "":
			out.Status, out.Fault = "broken", &VerificationFault{Day: string(day), Reason: fault}
			return out, nil
		case d.Day == "":
			return out, nil // neither this day nor a later one is digested yet
		}
		link = d.Link()
		out.LastDay, out.LastDigest, out.Signature = optional(string(day)), optional(link), signed(&d, key)
		out.Days++
		out.Entries += d.Entries
		if copied {
			out.LockedDays++
		}
	}
	return out, nil
}

func signed(d *audit.Digest, key signature.PublicKey) *DigestSignature {
	return &DigestSignature{
		KeyID: d.Signature.KeyID, Algorithm: signature.Algorithm, Message: d.Message(),
		Value: base64.StdEncoding.EncodeToString(d.Signature.Value), PublicKey: key.PEM(),
	}
}

// verifyDay verifies a day with the public key, given the link of the one before. It returns what
// does not fit, "" if all does. The zero Digest without a fault means that the
// day is not digested yet.
func (s *service) verifyDay(ctx context.Context, key signature.PublicKey, org string, day audit.Day, link string) (d audit.Digest, fault string, err error) {
	d, err = table.Load[audit.Digest](ctx, s.table, audit.DigestKey(org, day), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		fault, err = s.undigested(ctx, org, day)
		return audit.Digest{}, fault, err
	}
	if err != nil {
		return d, "", err
	}
	if d.OrgID != org || d.Day != day {
		return d, "the stored digest is that of another day or workspace", nil
	}
	switch {
	case !key.Signed([]byte(d.Message()), d.Signature):
		return d, "the digest is not the one that was signed", nil
	case d.Previous != link:
		return d, "the digest does not name that of the day before", nil
	}
	if d.Export != "" {
		if fault, err = s.verifyExport(ctx, &d); fault != "" || err != nil || d.Expired != 0 {
			return d, fault, err
		}
	}
	stored, err := audit.NewDigest(ctx, s.table, org, day, s.clock.Now())
	switch {
	case err != nil:
		return d, "", err
	case stored.Entries != d.Entries:
		return d, fmt.Sprintf("%d entries are stored, %d were digested", stored.Entries, d.Entries), nil
	case stored.SHA256 != d.SHA256:
		return d, "entries were changed since they were digested", nil
	}
	return d, "", nil
}

// compareLocked compares a digest, the zero one if none is stored, with the copy
// of the day. It reports whether there is a copy, and what does not fit.
func (s *service) compareLocked(ctx context.Context, org string, day audit.Day, d *audit.Digest) (copied bool, fault string, err error) {
	if s.locked == nil {
		return false, "", nil
	}
	locked, err := audit.Locked(ctx, s.locked, org, day)
	switch {
	case errors.Is(err, blob.ErrNotFound): // the day is older than the copies
		return false, "", nil
	case err != nil:
		return false, "", err
	case d.Day == "":
		return true, "no digest of the day is stored, but a locked copy of it", nil
	case locked.Link() != d.Link():
		return true, "the digest is not that of the locked copy", nil
	}
	return true, "", nil
}

// undigested returns why a day without a digest should have one, "" if it need
// not yet.
func (s *service) undigested(ctx context.Context, org string, day audit.Day) (string, error) {
	const removed = "no digest of the day is stored"
	if s.clock.Now().After(day.End().Add(late)) {
		return removed, nil
	}
	later, err := s.table.Query(ctx, table.Query{PK: audit.DigestPartition(org), Range: table.AtLeast(string(day)), Limit: 1, Consistent: true})
	if err == nil && len(later.Items) > 0 {
		return removed, nil
	}
	return "", err
}
