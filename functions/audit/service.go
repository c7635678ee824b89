package audit

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

// maxPages bounds the reads of one request, whose filters may match little.
const maxPages = 8

// service implements the rules of the audit log.
type service struct {
	table   table.Table
	blob    blob.Store
	signer  signature.Signer
	locked  blob.Store // of copies that cannot be changed; nil: there are none
	quota   *quota.Quota
	log     *slog.Logger
	clock   clock.Clock
	cursors httpapi.Cursors
}

// list returns a page of the log. Errors: errs.Unprocessable for invalid dates,
// errs.Invalid for an invalid next_token.
func (s *service) list(ctx context.Context, in *listIn) (AuditLogListResponse, error) {
	from, to, err := in.span()
	if err != nil {
		return AuditLogListResponse{}, err
	}
	return s.page(ctx, in, audit.Query{
		Actor:  strings.ToLower(in.ActorEmail), // as identity stores addresses
		Action: in.Action, ResourceType: in.ResourceType, From: from, To: to, Limit: in.Limit,
	})
}

// resource returns a page of the log of one resource. Errors: errs.Invalid.
func (s *service) resource(ctx context.Context, in *resourceIn) (AuditLogListResponse, error) {
	return s.page(ctx, in, audit.Query{ResourceType: in.ResourceType, ResourceID: in.ResourceID, Limit: in.Limit})
}

// page returns up to a query's limit of entries, from the next_token of the
// input on.
func (s *service) page(ctx context.Context, in any, q audit.Query) (AuditLogListResponse, error) {
	out := AuditLogListResponse{Items: []AuditLogEntry{}}
	after, err := s.cursors.Open(ctx, in)
	if err != nil {
		return out, err
	}
	left := q.Limit
	q.After = string(after)
	for range maxPages {
		q.Limit = left
		page, err := audit.List(ctx, s.table, tenant.From(ctx).OrgID, q)
		if err != nil {
			return out, err
		}
		for i := range page.Items {
			out.Items = append(out.Items, entry(&page.Items[i]))
		}
		q.After = page.Next
		if left -= len(page.Items); left == 0 || q.After == "" {
			break
		}
	}
	out.NextToken = s.cursors.Seal(ctx, in, table.Cursor(q.After))
	return out, nil
}

// span returns the time range of the entries: from included, to not.
func (in *listIn) span() (from, to time.Time, err error) {
	if from, err = httpapi.QueryTime("start_date", in.StartDate); err != nil {
		return from, to, err
	}
	if whole := from.Truncate(time.Millisecond); whole.Before(from) { // entries have milliseconds
		from = whole.Add(time.Millisecond)
	}
	if to, err = httpapi.QueryTime("end_date", in.EndDate); err != nil || in.EndDate == "" {
		return from, to, err
	}
	if len(in.EndDate) == len(time.DateOnly) {
		to = to.AddDate(0, 0, 1)
	} else {
		to = to.Truncate(time.Millisecond).Add(time.Millisecond)
	}
	if !to.After(from) {
		return from, to, errs.Field([]any{"query", "end_date"}, in.EndDate, "end_date is before start_date")
	}
	return from, to, nil
}

func entry(r *audit.Record) AuditLogEntry {
	return AuditLogEntry{
		OrgID: r.OrgID, EventTime: r.EventTime(), ResourceType: r.ResourceType, ResourceID: r.ResourceID, Action: r.Action,
		ActorEmail: optional(r.ActorEmail), KeyID: optional(r.KeyID), IPAddress: optional(r.IP), RequestID: optional(r.RequestID),
		BeforeJSON: object(r.Before), AfterJSON: object(r.After), Metadata: object(r.Metadata),
	}
}

// optional returns nil for the empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
