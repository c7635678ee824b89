package sqltable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

// A partition with no more rows and bytes than these is read as a whole when one
// of its rows is looked for.
const (
	probeRows  = 8
	probeBytes = 64 << 10
)

// The statements have their limits in them: SQLite plans anew for each value of
// a parameter there.
var (
	familySQL = fmt.Sprintf("SELECT pk, sk, data FROM items WHERE pk >= ? AND pk < ? LIMIT %d", probeRows+1)
	wholeSQL  = fmt.Sprintf("SELECT pk, sk, data FROM items WHERE pk = ? LIMIT %d", probeRows+1)
	endSQL    = "SELECT pk FROM items WHERE pk >= ? AND pk < ? ORDER BY pk DESC LIMIT 1"
	lastSQL   = "SELECT sk FROM items WHERE pk = ? ORDER BY sk DESC LIMIT 1"
)

// lookup finds an item in the memory or in the database.
func (t *Table) lookup(ctx context.Context, key table.Key) (look, error) {
	l := t.memory.get(key)
	if l.known {
		return l, ctx.Err()
	}
	err := t.db.Read(ctx, func(conn *sqlite.Conn) error {
		read, err := t.learn(conn, key.PK, l.lost)
		if err != nil {
			return err
		}
		if now := t.memory.get(key); now.known {
			l = now
			return nil
		}
		if read.whole { // it was not kept: rows were forgotten meanwhile
			l.item = read.rows[key]
			l.size = l.item.Size()
			return nil
		}
		item, err := load(conn, key)
		if err != nil {
			return err
		}
		l.item, l.size = item, item.Size()
		t.memory.remember(reading{pk: key.PK, lost: l.lost, rows: map[table.Key]table.Item{key: item}})
		return nil
	})
	return l, err
}

// learn reads a partition of the database as a whole, and the partitions whose
// keys begin with its own and #, if they are small, and has the memory keep
// them. Of one that is large it learns that.
func (t *Table) learn(conn *sqlite.Conn, pk string, lost uint64) (reading, error) {
	r := reading{pk: pk, lost: lost}
	large, bounded := t.memory.size(pk)
	if large && bounded {
		return r, nil
	}
	var err error
	if !large {
		// $ is the character behind #.
		if r.family, err = r.rowsOf(conn, familySQL, pk, pk+"$"); err != nil {
			return r, err
		}
		r.whole = r.family
		if !r.whole {
			if r.whole, err = r.rowsOf(conn, wholeSQL, pk); err != nil {
				return r, err
			}
		}
	}
	if r.family && len(r.rows) == 0 {
		if r.begin = t.memory.unknownEnd(pk); r.begin != "" {
			if r.end, err = lastOf(conn, endSQL, r.begin, r.begin[:len(r.begin)-1]+"$"); err != nil {
				return r, err
			}
		}
	}
	if !r.whole {
		r.large = true
		if r.last, err = lastOf(conn, lastSQL, pk); err != nil {
			return r, err
		}
	}
	t.memory.remember(r)
	return r, nil
}

// rowsOf reads the rows of a statement; false, and none, if they are too many.
func (r *reading) rowsOf(conn *sqlite.Conn, sql string, args ...string) (all bool, err error) {
	r.rows = nil
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return false, fmt.Errorf("sqltable: %w", err)
	}
	for i, text := range args {
		stmt.BindText(i+1, text)
	}
	rows, size := map[table.Key]table.Item{}, 0
	for {
		more, err := stmt.Step()
		if err != nil {
			return false, fmt.Errorf("sqltable: %w", err)
		}
		if !more {
			r.rows = rows
			return true, nil
		}
		size += stmt.ColumnLen(2)
		if len(rows) == probeRows || size > probeBytes {
			return false, stmt.Reset()
		}
		key := table.Key{PK: stmt.ColumnText(0), SK: stmt.ColumnText(1)}
		item, err := decode(key, stmt.ColumnText(2))
		if err != nil {
			return false, errors.Join(err, stmt.Reset())
		}
		if key.PK == r.pk || strings.HasPrefix(key.PK, r.pk+"#") {
			rows[key] = item
		}
	}
}

// lastOf reads a statement's one key, "" if it has none.
func lastOf(conn *sqlite.Conn, sql string, args ...string) (string, error) {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return "", fmt.Errorf("sqltable: %w", err)
	}
	for i, text := range args {
		stmt.BindText(i+1, text)
	}
	row, err := stmt.Step()
	if err != nil || !row {
		return "", err
	}
	return stmt.ColumnText(0), stmt.Reset()
}
