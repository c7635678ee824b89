package tabletest

import (
	"fmt"
	"slices"

	"millrace/shared/platform/table"
)

// whole reads a partition without a limit and compares it with the model. It
// returns the rows in the driver's order, which may differ for rows with the
// same index key.
func (m *machine) whole(x table.Index, pk string, reverse bool) ([]row, error) {
	want := m.model.rows(x, pk)
	if reverse {
		slices.Reverse(want)
	}
	_, sk := x.Attributes()
	var got []row
	for item, err := range table.All(m.ctx, m.Table, table.Query{Index: x, PK: pk, Reverse: reverse, Consistent: x == ""}) {
		if err != nil {
			return nil, err
		}
		got = append(got, row{at: item[sk].Str(), key: item.Key(), item: item})
	}
	inOrder := slices.EqualFunc(want, got, func(a, b row) bool { return a.at == b.at })
	slices.SortFunc(want, compareRows)
	sorted := slices.SortedFunc(slices.Values(got), compareRows)
	if !inOrder || !sameItems(passing(nil, want), passing(nil, sorted)) {
		return nil, fmt.Errorf("partition %+q of index %q, reverse %t, has %s, not in some order %s",
			pk, x, reverse, list(passing(nil, got)), list(passing(nil, want)))
	}
	return got, nil
}

// pages reads a query page by page and compares each page with the expected
// rows, until all have been read.
func (m *machine) pages(q table.Query, rows []row) error {
	for {
		page, err := m.Query(m.ctx, q)
		if err != nil {
			return err
		}
		read := len(rows)
		if page.Next != "" {
			q.Start = page.Next
			if read, err = readUpTo(q, rows); err != nil {
				return err
			}
			m.last = q
		}
		want := projected(passing(q.Filter, rows[:read]), q.Only)
		if !sameItems(want, page.Items) {
			return fmt.Errorf("a page has %s, not %s", list(page.Items), list(want))
		}
		if err := m.cut(q, rows, read, page.Next != ""); err != nil {
			return err
		}
		if page.Next == "" {
			return nil
		}
		rows = rows[read:]
	}
}

// readUpTo returns how many of the rows are before the query's cursor.
func readUpTo(q table.Query, rows []row) (int, error) {
	at, err := table.DecodeCursor(q)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(rows, func(x row) bool {
		return x.key == at.Key && (q.Index == "" || x.at == at.Entry.SK)
	})
	if i < 0 {
		return 0, fmt.Errorf("the cursor %+q is of nothing that was to be read", at)
	}
	return i + 1, nil
}

// cut checks that a page ends at its limit or size. The driver decides whether
// the item that exceeds the megabyte belongs to the page, and whether a cursor
// follows the last possible item of a range.
func (m *machine) cut(q table.Query, rows []row, read int, more bool) error {
	size := func(n int) int { return bytes(rows[:min(max(n, 0), len(rows))]) }
	full := q.Limit > 0 && read == q.Limit
	switch {
	case q.Limit > 0 && read > q.Limit:
		return fmt.Errorf("a page of %d items", read)
	case full && !more && rows[read-1].at != q.Range.From && rows[read-1].at != q.Range.To:
		return fmt.Errorf("a page of %d items without a cursor", read)
	case m.deviates.PagesAfterFilter && q.Filter != nil:
	case more && !full && size(read+1) <= table.MaxPageBytes:
		return fmt.Errorf("a page of %d bytes is cut before the next item", size(read))
	case size(read-1) > table.MaxPageBytes:
		return fmt.Errorf("a page of %d bytes is not cut before the last item", size(read))
	}
	return nil
}
