package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/web/httpapi"
)

// Limits of a list.
const (
	maxLimit    = 500
	batch       = 100    // records read and sent at a time
	maxFiltered = 10_000 // records that one filtered list reads
)

// list lists runs, newest first, page by page, so that a list of any length
// takes little memory.
//
// Filters without an index are applied to the records read. Such a list reads
// at most maxFiltered records and returns where to continue.
func (s *service) list(ctx context.Context, in *listQuery) (out httpapi.Stream[RunList], err error) {
	created, err := in.created()
	if err != nil {
		return out, err
	}
	query := table.Query{
		Index:   runstate.ListIndex(in.FlowName, in.Environment),
		PK:      runstate.ListPartition(tenant.From(ctx).OrgID, in.FlowName, in.Environment),
		Range:   created,
		Reverse: true,
	}
	left := -1 // records still to be read, negative for all
	if in.Limit != nil {
		left = min(max(*in.Limit, 1), maxLimit)
	}
	until := ""
	records := s.records(ctx, query, left, in, &until)
	if in.Limit == nil {
		records = s.alone(ctx, records)
	}
	return httpapi.ListTo[RunList](records, func() (string, string) {
		if until == "" {
			return "", ""
		}
		return "next_until", until
	})
}

// filtered reports whether the query has filters without an index.
func (in *listQuery) filtered() bool {
	return in.Status != "" || in.Deployment != "" || in.TriggerSource != "" || in.TriggeredBy != ""
}

// wants reports whether a record matches the filters.
func (in *listQuery) wants(r *runstate.Run) bool {
	return (in.Status == "" || in.Status == string(r.Status)) && (in.Deployment == "" || in.Deployment == r.Deployment) &&
		(in.TriggerSource == "" || in.TriggerSource == r.Trigger) && (in.TriggeredBy == "" || in.TriggeredBy == r.By)
}

// records reads a list of runs page by page. If it stops because the filters
// made it read too many records, it sets until to where to continue.
func (s *service) records(ctx context.Context, query table.Query, left int, in *listQuery, until *string) iter.Seq2[RunRecord, error] {
	return func(yield func(RunRecord, error) bool) {
		seen, last := 0, clock.Millis(0)
		for more := true; more && left != 0; {
			query.Limit = batch
			if left > 0 && !in.filtered() {
				query.Limit = min(batch, left)
			}
			runs, next, err := s.listed(ctx, query)
			if err != nil {
				yield(RunRecord{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for i := range runs {
				run := &runs[i]
				if in.filtered() && seen >= maxFiltered && run.CreatedAt != last { // records of one instant are not separated
					*until = run.CreatedAt.String()
					return
				}
				seen, last = seen+1, run.CreatedAt
				if !in.wants(run) {
					continue
				}
				if !yield(record(run), nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			query.Start, more = next, next != ""
		}
	}
}

// listed reads a page of a list. An empty page need not be the last.
func (s *service) listed(ctx context.Context, query table.Query) ([]runstate.Run, table.Cursor, error) {
	page, err := s.table.Query(ctx, query)
	if err != nil || len(page.Items) == 0 {
		return nil, page.Next, err
	}
	keys := make([]table.Key, len(page.Items))
	for i, item := range page.Items {
		keys[i] = item.Key()
	}
	items, err := s.table.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return nil, "", err
	}
	runs, err := table.Decode[runstate.Run](items)
	now := s.clock.Now()
	return slices.DeleteFunc(runs, func(r runstate.Run) bool { return r.Expired(now) }), page.Next, err
}

// created is the range of the ids of runs created in the time asked for. Errors:
// errs.Unprocessable.
func (in *listQuery) created() (table.Range, error) {
	since, err := httpapi.QueryTime("since", in.Since)
	if err != nil {
		return table.Range{}, err
	}
	if whole := since.Truncate(time.Millisecond); whole.Before(since) { // created_at has milliseconds
		since = whole.Add(time.Millisecond)
	}
	until, err := httpapi.QueryTime("until", in.Until)
	switch {
	case err != nil:
		return table.Range{}, err
	case in.Until == "" && in.Since == "":
		return table.Range{}, nil
	case in.Until == "":
		return table.AtLeast(ids.First(since)), nil
	}
	if in.Since == "" {
		since = time.UnixMilli(0)
	}
	until = until.Truncate(time.Millisecond)
	if until.Before(since) {
		return table.Range{}, errs.Validation(errs.Detail{
			Type: "value_error", Loc: []any{"query", "until"}, Msg: "until is before since", Input: in.Until,
		})
	}
	return table.Between(ids.First(since), ids.First(until.Add(time.Millisecond))), nil
}
