package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// Query returns one page of the table or of an index.
func (t *Table) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if err := table.CheckQuery(q); err != nil {
		return table.Page{}, err
	}
	var start table.Position
	if q.Start != "" {
		var err error
		if start, err = table.DecodeCursor(q); err != nil {
			return table.Page{}, err
		}
	}
	if q.Range.Empty() {
		return table.Page{}, nil
	}
	p := pager{query: q, prefix: len(partition(q.Index, q.PK))}
	lower, upper := bounds(q, start)
	if err := t.db.Scan(ctx, lower, upper, q.Reverse, p.row); err != nil {
		return table.Page{}, err
	}
	units := table.Units{Read: table.ReadUnits(p.bytes, q.Consistent)}
	if m := table.MeterFrom(ctx); q.Index != "" {
		m.Add(table.OpQuery, table.Units{})
		m.AddIndex(q.Index, units)
	} else {
		m.Add(table.OpQuery, units)
	}
	return p.page, nil
}

// pager builds one page from rows.
type pager struct {
	query  table.Query
	prefix int // length of the key prefix of the partition
	page   table.Page
	bytes  int
	count  int
	last   table.Position
}

// row adds a row of the store. It returns false if the page ends before or with
// it.
func (p *pager) row(key, value []byte) (more bool, err error) {
	at, err := p.position(key[p.prefix:])
	if err != nil {
		return false, err
	}
	var item table.Item
	left := 0
	switch {
	case p.query.Index != "":
		item = table.EntryItem(p.query.Index, at.Entry, at.Key)
	case p.query.Filter != nil: // the filter may refer to attributes that are not selected
		item, err = decode(at.Key, string(value))
	default:
		item, left, err = project(at.Key, string(value), p.query.Only)
	}
	if err != nil {
		return false, err
	}
	size := item.Size() + left //guard:store/projected operand 2 0
	if p.count > 0 && p.bytes+size > table.MaxPageBytes {
		p.page.Next = table.EncodeCursor(p.query, p.last)
		return false, nil
	}
	p.bytes, p.count, p.last = p.bytes+size, p.count+1, at
	if table.Holds(p.query.Filter, item) {
		if p.query.Filter != nil && len(p.query.Only) > 0 {
			if item, _, err = project(at.Key, string(value), p.query.Only); err != nil {
				return false, err
			}
		}
		p.page.Items = append(p.page.Items, item)
	}
	if p.count == p.query.Limit {
		// As DynamoDB does, even if no item follows.
		p.page.Next = table.EncodeCursor(p.query, p.last)
		return false, nil
	}
	return true, nil
}

// position parses the rest of a key after its partition.
func (p *pager) position(rest []byte) (at table.Position, err error) {
	sort, rest, ok := store.CutPart(rest)
	if p.query.Index == "" {
		at.Key = table.Key{PK: p.query.PK, SK: sort}
	} else if ok {
		at.Entry = table.Key{PK: p.query.PK, SK: sort}
		at.Key, ok = cutKey(rest)
	}
	if !ok {
		return at, fmt.Errorf("pebbletable: damaged key in partition %s", p.query.PK)
	}
	return at, nil
}

func cutKey(b []byte) (key table.Key, ok bool) {
	pk, rest, ok := store.CutPart(b)
	if !ok {
		return key, false
	}
	sk, _, ok := store.CutPart(rest)
	return table.Key{PK: pk, SK: sk}, ok
}
