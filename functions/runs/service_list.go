package runs

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/web/httpapi"
)

// The sizes of a list.
const (
	maxLimit = 500
	batch    = 100 // records read and sent at a time
)

// list lists runs, newest first, page by page, so that a list of any length takes
// little memory.
func (s *service) list(ctx context.Context, in *listQuery) (out httpapi.Stream[httpapi.Items[RunRecord]], err error) {
	since, err := in.since()
	if err != nil {
		return out, err
	}
	query := table.Query{
		Index:   runstate.ListIndex(in.FlowName, in.Environment),
		PK:      runstate.ListPartition(tenant.From(ctx).OrgID, in.FlowName, in.Environment),
		Range:   since,
		Reverse: true,
	}
	left := -1 // records still to be read, negative for all there are
	if in.Limit != nil {
		left = min(max(*in.Limit, 1), maxLimit)
	}
	return httpapi.List(s.records(ctx, query, left))
}

// records reads a list of runs page by page.
func (s *service) records(ctx context.Context, query table.Query, left int) iter.Seq2[RunRecord, error] {
	return func(yield func(RunRecord, error) bool) {
		for more := true; more && left != 0; {
			query.Limit = batch
			if left > 0 {
				query.Limit = min(batch, left)
			}
			runs, next, err := s.listed(ctx, query)
			if err != nil {
				yield(RunRecord{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for i := range runs {
				if !yield(record(&runs[i]), nil) {
					return
				}
			}
			left -= min(max(left, 0), len(runs))
			query.Start, more = next, next != ""
		}
	}
}

// listed reads a page of a list; it may be empty and yet not be the last.
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
	return runs, page.Next, err
}

// layouts are the forms of a timestamp; what names no offset is in UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", time.DateOnly}

// since is the range of run ids from a time on. Errors: errs.Unprocessable.
func (in *listQuery) since() (table.Range, error) {
	text := in.Since
	if text == "" {
		return table.Range{}, nil
	}
	if date, clock, ok := strings.Cut(text, " "); ok { // a plus sign that a query string made a space, or ISO 8601 written as SQL does
		sep := "+"
		if len(date) == len(time.DateOnly) {
			sep = "T"
			clock = strings.Replace(clock, " ", "+", 1)
		}
		text = date + sep + clock
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if whole := t.Truncate(time.Millisecond); whole.Before(t) { // created_at has milliseconds
			t = whole.Add(time.Millisecond)
		}
		return table.AtLeast(ids.First(t)), nil
	}
	return table.Range{}, errs.Validation(errs.Detail{
		Type: "datetime_parsing", Loc: []any{"query", "since"}, Msg: "Input should be a valid ISO 8601 timestamp", Input: in.Since,
	})
}
