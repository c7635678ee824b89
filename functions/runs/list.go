package runs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// The sizes of a list.
const (
	maxLimit = 500
	batch    = 100 // records read and sent at a time
)

// list answers with runs, newest first, page by page, so that a list of any
// length takes little memory.
func (s *service) list(ctx context.Context, in *listQuery) (*huma.StreamResponse, error) {
	since, err := in.since()
	if err != nil {
		return nil, err
	}
	p := pager{s: s, left: -1, query: table.Query{
		Index:   runstate.ListIndex(in.FlowName, in.Environment),
		PK:      runstate.ListPartition(tenant.From(ctx).OrgID, in.FlowName, in.Environment),
		Range:   since,
		Reverse: true,
	}}
	if in.Limit.Set {
		p.left = min(max(in.Limit.Value, 1), maxLimit)
	}
	first, err := p.next(ctx) // before the answer begins, for its status
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) { p.send(ctx, begin(hc), first) }}, nil
}

// pager reads a list in pages.
type pager struct {
	s     *service
	query table.Query
	left  int // records still to be read, negative for all there are
	done  bool
}

// next reads the next page; it may be empty and yet not be the last.
func (p *pager) next(ctx context.Context) ([]runstate.Run, error) {
	p.query.Limit = batch
	if p.left >= 0 {
		p.query.Limit = min(batch, p.left)
	}
	page, err := p.s.table.Query(ctx, p.query)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	keys := make([]table.Key, len(page.Items))
	for i, item := range page.Items {
		keys[i] = item.Key()
	}
	var items []table.Item
	if len(keys) > 0 {
		if items, err = p.s.table.BatchGet(ctx, keys, table.Consistent); err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
	}
	if p.left >= 0 {
		p.left -= len(items)
	}
	p.query.Start = page.Next
	p.done = page.Next == "" || p.left == 0
	return table.Decode[runstate.Run](items)
}

// send writes the list, beginning with a page that was read.
func (p *pager) send(ctx context.Context, out stream, runs []runstate.Run) {
	var buf bytes.Buffer
	buf.WriteString(`{"items":[`)
	empty := true
	for {
		for i := range runs {
			if !empty {
				buf.WriteByte(',')
			}
			empty = false
			encode(&buf, record(&runs[i]))
		}
		if p.done {
			buf.WriteString("]}\n")
		}
		if !out.text(buf.Bytes()) || p.done {
			return
		}
		buf.Reset()
		var err error
		if runs, err = p.next(ctx); err != nil {
			abandon(ctx, err)
			return
		}
	}
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
