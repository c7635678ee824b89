package sqltable

import (
	"context"
	"fmt"
	"strings"

	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
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
	r := reader{query: q}
	err := t.db.Read(ctx, func(conn *sqlite.Conn) error {
		return r.read(conn, start)
	})
	if err != nil {
		return table.Page{}, err
	}
	if m := table.MeterFrom(ctx); m != nil {
		units := table.Units{Read: table.ReadUnits(r.bytes, q.Consistent)}
		if q.Index != "" {
			m.Add(table.OpQuery, table.Units{})
			m.AddIndex(q.Index, units)
		} else {
			m.Add(table.OpQuery, units)
		}
	}
	return r.page, nil
}

// reader reads one page.
type reader struct {
	query table.Query
	page  table.Page
	bytes int
	count int
	last  table.Position
}

func (r *reader) read(conn *sqlite.Conn, start table.Position) error {
	sql, args := statement(r.query, start)
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("sqltable: %w", err)
	}
	for i, s := range args {
		stmt.BindText(i+1, s)
	}
	for {
		row, err := stmt.Step()
		if err != nil {
			return fmt.Errorf("sqltable: %w", err)
		}
		if !row {
			return nil
		}
		more, err := r.take(stmt)
		if err != nil || !more {
			_ = stmt.Reset() // it reports an error of Step again, and there was none
			return err
		}
	}
}

// take adds a row to the page; false if the page ends before or with it.
func (r *reader) take(stmt *sqlite.Stmt) (more bool, err error) {
	at, item, err := r.row(stmt)
	if err != nil {
		return false, err
	}
	size := item.Size()
	if r.count > 0 && r.bytes+size > table.MaxPageBytes {
		r.page.Next = table.EncodeCursor(r.query, r.last)
		return false, nil
	}
	r.bytes += size
	r.count++
	r.last = at
	if table.Holds(r.query.Filter, item) {
		r.page.Items = append(r.page.Items, item)
	}
	if r.count == r.query.Limit {
		// As DynamoDB does it, even if nothing should follow.
		r.page.Next = table.EncodeCursor(r.query, r.last)
		return false, nil
	}
	return true, nil
}

func (r *reader) row(stmt *sqlite.Stmt) (table.Position, table.Item, error) {
	if r.query.Index == "" {
		at := table.Position{Key: table.Key{PK: r.query.PK, SK: stmt.ColumnText(0)}}
		item, err := decode(at.Key, stmt.ColumnText(1))
		return at, item, err
	}
	at := table.Position{
		Entry: table.Key{PK: r.query.PK, SK: stmt.ColumnText(0)},
		Key:   table.Key{PK: stmt.ColumnText(1), SK: stmt.ColumnText(2)},
	}
	return at, table.EntryItem(r.query.Index, at.Entry, at.Key), nil
}

// statement writes the SQL of a query from a position on, and its parameters.
// There are few different texts, so that each stays prepared.
func statement(q table.Query, start table.Position) (sql string, args []string) {
	var b strings.Builder
	sort := "sk"
	if q.Index == "" {
		b.WriteString("SELECT sk, data FROM items WHERE pk = ?")
		args = append(args, q.PK)
	} else {
		sort = "isk"
		b.WriteString("SELECT isk, pk, sk FROM entries WHERE idx = ? AND ipk = ?")
		args = append(args, string(q.Index), q.PK)
	}
	bound := func(op, value string) {
		b.WriteString(" AND " + sort + " " + op + " ?")
		args = append(args, value)
	}
	lower, upper := bounds(q.Range)
	// The cursor lies within the range, so it stands for the bound it passes.
	if lower.op != "" && (start == table.Position{} || q.Reverse) {
		bound(lower.op, lower.value)
	}
	if upper.op != "" && (start == table.Position{} || !q.Reverse) {
		bound(upper.op, upper.value)
	}
	past, order := ">", ""
	if q.Reverse {
		past, order = "<", " DESC"
	}
	if start != (table.Position{}) {
		if q.Index == "" {
			bound(past, start.Key.SK)
		} else {
			b.WriteString(" AND (isk, pk, sk) " + past + " (?, ?, ?)")
			args = append(args, start.Entry.SK, start.Key.PK, start.Key.SK)
		}
	}
	if q.Index == "" {
		b.WriteString(" ORDER BY sk" + order)
	} else {
		b.WriteString(" ORDER BY isk" + order + ", pk" + order + ", sk" + order)
	}
	return b.String(), args
}

// limit is one end of a range; the zero limit is none.
type limit struct{ op, value string }

func bounds(r table.Range) (lower, upper limit) {
	switch r.Kind {
	case table.RangeEqual:
		return limit{">=", r.From}, limit{"<=", r.From}
	case table.RangePrefix:
		// The next text that does not begin so: no byte of UTF-8 is 0xff.
		last := len(r.From) - 1
		return limit{">=", r.From}, limit{"<", r.From[:last] + string([]byte{r.From[last] + 1})}
	case table.RangeBetween:
		return limit{">=", r.From}, limit{"<=", r.To}
	case table.RangeAtLeast:
		return limit{">=", r.From}, limit{}
	case table.RangeAfter:
		return limit{">", r.From}, limit{}
	case table.RangeAtMost:
		return limit{}, limit{"<=", r.From}
	case table.RangeBefore:
		return limit{}, limit{"<", r.From}
	}
	return limit{}, limit{}
}
