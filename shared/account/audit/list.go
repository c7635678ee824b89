package audit

import (
	"context"
	"fmt"
	"time"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// MaxLimit is the most entries of a page.
const MaxLimit = 1000

// Query selects entries of a workspace. Empty fields do not restrict it.
type Query struct {
	Actor        string // email; for an API key, that of its creator
	Action       string
	ResourceType string
	ResourceID   string    // requires ResourceType
	From, To     time.Time // From included, To not; in milliseconds
	Limit        int       // 1 to MaxLimit
	After        string    // Next of the previous page
}

// Page is one page of a query's entries, newest first. It may have fewer
// entries than the limit, or none; it is the last if Next is empty.
type Page struct {
	Items []Record
	Next  string
}

// List returns a page of a workspace's entries. It reads only the lists that
// the query names, at most maxReads times for each shard, so that a page may
// end early. New entries appear in lists after a short delay. Errors:
// table.ErrBadCursor, and table.ErrInvalid for an invalid limit or a resource
// without its type.
func List(ctx context.Context, t table.Table, org string, q Query) (Page, error) {
	if org == "" || q.Limit < 1 || q.Limit > MaxLimit || q.ResourceID != "" && q.ResourceType == "" {
		return Page{}, fmt.Errorf("%w: audit entries of workspace %q: limit %d, resource %q of type %q", table.ErrInvalid, org, q.Limit, q.ResourceID, q.ResourceType)
	}
	oldest, before := span(q.From, q.To)
	if q.After != "" {
		id := q.After[:min(len(q.After), len(newest))]
		if _, ok := ids.Time(id); !ok || q.After != id && q.After != id+above {
			return Page{}, fmt.Errorf("%w: of no audit entry", table.ErrBadCursor)
		}
		before = min(before, q.After)
	}
	if oldest >= before {
		return Page{}, nil
	}
	scans := q.scans(t, org, oldest, before)
	found, next, err := merge(ctx, scans, q.Limit)
	if err != nil {
		return Page{}, fmt.Errorf("list audit entries: %w", err)
	}
	items, err := load(ctx, t, found, scans[0].filters[0][0].query.Index != "")
	if err != nil {
		return Page{}, fmt.Errorf("read audit entries: %w", err)
	}
	page := Page{Items: make([]Record, 0, len(items)), Next: next}
	for i := range items {
		if items[i].Expires == 0 && q.chooses(&items[i]) {
			page.Items = append(page.Items, items[i])
		}
	}
	return page, nil
}

// span returns the smallest id of the time range, and the smallest id after it.
func span(from, to time.Time) (oldest, before string) {
	oldest, before = ids.First(time.Time{}), newest+above
	if !from.IsZero() {
		oldest = ids.First(from)
	}
	if !to.IsZero() {
		before = ids.First(to)
	}
	return oldest, before
}

// chooses reports whether the query selects an entry, regardless of its time.
func (q *Query) chooses(r *Record) bool {
	is := func(want, got string, n int) bool { return want == "" || cut(want, n) == got }
	return is(q.Actor, r.ActorEmail, maxName) && is(q.Action, r.Action, maxName) &&
		is(q.ResourceType, r.ResourceType, maxName) && is(q.ResourceID, r.ResourceID, maxID)
}

// filters returns, for each filter of the query, the lists that contain its
// entries: a matching entry is in one list of each filter. No filter means all
// entries of the workspace.
func (q *Query) filters(org string) [][]list {
	var out [][]list
	if q.Actor != "" {
		out = append(out, []list{ofActor(org, q.Actor)})
	}
	if k := (kind{q.ResourceType, q.Action}); frequent[k] {
		return append(out, []list{ofKind(org, k)})
	}
	if q.ResourceType != "" {
		lists := []list{ofType(org, q.ResourceType)}
		for k := range frequent {
			if k.resourceType == q.ResourceType && q.Action == "" {
				lists = append(lists, ofKind(org, k))
			}
		}
		out = append(out, lists)
	}
	if q.Action != "" {
		lists := []list{ofAction(org, q.Action)}
		for k := range frequent {
			if k.action == q.Action && q.ResourceType == "" {
				lists = append(lists, ofKind(org, k))
			}
		}
		out = append(out, lists)
	}
	return out
}

// scans returns the reads that find the query's entries: one for each shard.
// Entries of one resource are few and not sharded; chooses applies the other
// filters.
func (q *Query) scans(t table.Table, org, oldest, before string) []*scan {
	read := func(index table.Index, pk string) *reader {
		return &reader{table: t, query: table.Query{Index: index, PK: pk, Consistent: index == ""}, oldest: oldest, chunk: q.Limit/4 + 16}
	}
	if q.ResourceID != "" {
		l := ofResource(org, q.ResourceType, q.ResourceID)
		return []*scan{{before: before, filters: [][]*reader{{read(l.index, l.pk)}}}}
	}
	filters := q.filters(org)
	out := make([]*scan, Shards)
	for shard := range out {
		s := &scan{before: before}
		for _, lists := range filters {
			var readers []*reader
			for _, l := range lists {
				readers = append(readers, read(l.index, l.in(shard)))
			}
			s.filters = append(s.filters, readers)
		}
		if len(filters) == 0 {
			s.filters = [][]*reader{{read("", Partition(org, fmt.Sprint(shard)))}}
		}
		out[shard] = s
	}
	return out
}

// load returns the found entries, in order. Lists hold only keys, the table
// whole entries.
func load(ctx context.Context, t table.Table, found []table.Item, lists bool) ([]Record, error) {
	if lists && len(found) > 0 {
		keys := make([]table.Key, len(found))
		for i, item := range found {
			keys[i] = item.Key()
		}
		var err error
		if found, err = t.BatchGet(ctx, keys, table.Consistent); err != nil {
			return nil, err
		}
	}
	return table.Decode[Record](found)
}
