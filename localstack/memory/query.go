package memory

import (
	"context"
	"maps"
	"slices"

	"millrace/shared/table"
)

// Query returns one page of the table or of an index.
func (t *Table) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if err := table.CheckQuery(q); err != nil {
		return table.Page{}, err
	}
	var start *row
	if q.Start != "" {
		p, err := table.DecodeCursor(q)
		if err != nil {
			return table.Page{}, err
		}
		start = &row{sort: p.Key.SK, key: p.Key}
		if q.Index != "" {
			start.sort = p.Entry.SK
		}
	}
	if q.Range.Empty() {
		return table.Page{}, nil
	}
	if err := ctx.Err(); err != nil {
		return table.Page{}, err
	}
	t.mu.RLock()
	page, size := read(t.parts[partition{q.Index, q.PK}], q, start)
	t.mu.RUnlock()
	units := table.Units{Read: table.ReadUnits(size, q.Consistent)}
	if m := table.MeterFrom(ctx); q.Index != "" {
		m.Add(table.OpQuery, table.Units{})
		m.AddIndex(q.Index, units)
	} else {
		m.Add(table.OpQuery, units)
	}
	return page, nil
}

// read reads one page and tells how many bytes it read.
func read(part rows, q table.Query, start *row) (page table.Page, size int) {
	order := slices.All(part)
	if q.Reverse {
		order = slices.Backward(part)
	}
	count, last := 0, row{}
	next := func() table.Cursor {
		p := table.Position{Key: last.key}
		if q.Index != "" {
			p.Entry = table.Key{PK: q.PK, SK: last.sort}
		}
		return table.EncodeCursor(q, p)
	}
	for _, r := range order {
		if !q.Range.Contains(r.sort) || start != nil && !past(r, *start, q.Reverse) {
			continue
		}
		item := maps.Clone(r.item)
		if q.Index != "" {
			item = table.EntryItem(q.Index, table.Key{PK: q.PK, SK: r.sort}, r.key)
		}
		n := item.Size()
		if count > 0 && size+n > table.MaxPageBytes {
			page.Next = next()
			return page, size
		}
		size, count, last = size+n, count+1, r
		if table.Holds(q.Filter, item) {
			page.Items = append(page.Items, item)
		}
		if count == q.Limit {
			page.Next = next() // as DynamoDB does it, even if nothing should follow
			return page, size
		}
	}
	return page, size
}

// past reports whether a row comes after the place where a query goes on.
func past(r, start row, reverse bool) bool {
	order := r.compare(start)
	if reverse {
		return order < 0
	}
	return order > 0
}
