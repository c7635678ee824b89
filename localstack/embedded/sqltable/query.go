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
	r := reader{table: t, query: q, start: start}
	if err := r.read(ctx); err != nil {
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

// reader reads one page: rows of the memory and of the database, in one order.
type reader struct {
	table *Table
	query table.Query
	start table.Position
	page  table.Page
	bytes int
	count int
	last  table.Position
}

// retries is how often a page is read anew because rows moved from the memory
// into the database between the looks at the two.
const retries = 10

func (r *reader) read(ctx context.Context) error {
	seen := r.table.memory.view(r.query, r.start)
	if seen.whole {
		return r.merge(seen, nil)
	}
	return r.table.db.Read(ctx, func(conn *sqlite.Conn) error {
		if r.query.Index == "" {
			if _, err := r.table.learn(conn, r.query.PK, seen.lost); err != nil {
				return err
			}
		}
		for n := 0; ; n++ {
			seen = r.table.memory.view(r.query, r.start)
			if seen.whole {
				return r.merge(seen, nil)
			}
			again, err := r.try(conn, seen, n < retries)
			if err != nil || !again {
				return err
			}
		}
	})
}

// try merges what was seen of the memory with the database, unless that has
// changed meanwhile.
func (r *reader) try(conn *sqlite.Conn, seen view, mayRetry bool) (again bool, err error) {
	sql, args := statement(r.query, r.start)
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return false, fmt.Errorf("sqltable: %w", err)
	}
	for i, s := range args {
		stmt.BindText(i+1, s)
	}
	d := &rows{stmt: stmt, query: r.query}
	err = d.next() // the database as it is now is what all steps see
	if err == nil && mayRetry && r.table.memory.moved(seen) {
		again = true
	} else if err == nil {
		err = r.merge(seen, d)
	}
	if !d.done {
		_ = stmt.Reset() // it reports an error of Step again, and there was none
	}
	return again, err
}

// merge makes the page of two sorted lists; d is nil if the memory has all.
func (r *reader) merge(seen view, d *rows) error {
	for {
		stored := d != nil && !d.done
		if stored && seen.hides(d.at) {
			if err := d.next(); err != nil {
				return err
			}
			continue
		}
		var more bool
		switch {
		case len(seen.rows) > 0 && (!stored || before(r.query.Reverse, seen.rows[0].at, d.at)):
			more = r.take(seen.rows[0].at, r.table.own(seen.rows[0].item))
			seen.rows = seen.rows[1:]
		case stored:
			item, err := d.item()
			if err != nil {
				return err
			}
			if more = r.take(d.at, item); more {
				if err := d.next(); err != nil {
					return err
				}
			}
		default:
			return nil
		}
		if !more {
			return nil
		}
	}
}

// rows steps through the database's part.
type rows struct {
	stmt  *sqlite.Stmt
	query table.Query
	at    table.Position
	done  bool
}

func (d *rows) next() error {
	row, err := d.stmt.Step()
	if err != nil {
		d.done = true
		return fmt.Errorf("sqltable: %w", err)
	}
	switch {
	case !row:
		d.done = true
	case d.query.Index == "":
		d.at = table.Position{Key: table.Key{PK: d.query.PK, SK: d.stmt.ColumnText(0)}}
	default:
		d.at = table.Position{
			Entry: table.Key{PK: d.query.PK, SK: d.stmt.ColumnText(0)},
			Key:   table.Key{PK: d.stmt.ColumnText(1), SK: d.stmt.ColumnText(2)},
		}
	}
	return nil
}

func (d *rows) item() (table.Item, error) {
	if d.query.Index == "" {
		return decode(d.at.Key, d.stmt.ColumnText(1))
	}
	return table.EntryItem(d.query.Index, d.at.Entry, d.at.Key), nil
}

// take adds a row to the page; false if the page ends before or with it.
func (r *reader) take(at table.Position, item table.Item) (more bool) {
	size := item.Size()
	if r.count > 0 && r.bytes+size > table.MaxPageBytes {
		r.page.Next = table.EncodeCursor(r.query, r.last)
		return false
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
		return false
	}
	return true
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
