package sqltable

import (
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/shared/table"

	"zombiezen.com/go/sqlite"
)

var errRecord = errors.New("sqltable: the journal's record is damaged")

// appendChange appends a change to a record of the journal: the key, then the
// attributes' encoding after its length and one, or 0 if the item is deleted.
func appendChange(record []byte, key table.Key, item table.Item, data []byte) []byte {
	for _, text := range []string{key.PK, key.SK} {
		record = append(binary.AppendUvarint(record, uint64(len(text))), text...)
	}
	if item == nil {
		return binary.AppendUvarint(record, 0)
	}
	if data != nil {
		return append(binary.AppendUvarint(record, uint64(len(data))+1), data...)
	}
	// The length is not known before: it takes as many bytes as the largest.
	at := len(record)
	record = table.AppendBinary(append(record, 0, 0, 0, 0), item, "pk", "sk")
	for i, n := 0, len(record)-at-4+1; i < 4; i, n = i+1, n>>7 {
		record[at+i] = byte(n & 0x7f)
		if i < 3 {
			record[at+i] |= 0x80
		}
	}
	return record
}

// replay makes the changes of a record in the database.
func replay(conn *sqlite.Conn, record []byte) error {
	text := func() (string, bool) {
		n, used := binary.Uvarint(record)
		if used <= 0 || n > uint64(len(record)-used) {
			return "", false
		}
		out := string(record[used : used+int(n)])
		record = record[used+int(n):]
		return out, true
	}
	for len(record) > 0 {
		pk, ok := text()
		sk, good := text()
		n, used := binary.Uvarint(record)
		if !ok || !good || used <= 0 || n > uint64(len(record)-used)+1 {
			return errRecord
		}
		record = record[used:]
		f := fold{pk: pk, sk: sk}
		var err error
		if n > 0 {
			if f.item, err = decode(table.Key{PK: pk, SK: sk}, string(record[:n-1])); err != nil {
				return err
			}
			record = record[n-1:]
		}
		if f.base, err = load(conn, table.Key{PK: pk, SK: sk}); err != nil {
			return err
		}
		if err := f.write(conn); err != nil {
			return err
		}
	}
	return nil
}

// write brings a row into the database.
func (f *fold) write(conn *sqlite.Conn) error {
	var err error
	switch {
	case f.base == nil && f.item == nil:
		return nil // it came and went
	case f.base == nil:
		err = run(conn, "INSERT INTO items (pk, sk, data) VALUES (?, ?, ?)", encode(f.item), f.pk, f.sk)
	case f.item == nil:
		err = run(conn, "DELETE FROM items WHERE pk = ? AND sk = ?", nil, f.pk, f.sk)
	default:
		err = run(conn, "UPDATE items SET data = ?3 WHERE pk = ?1 AND sk = ?2", encode(f.item), f.pk, f.sk)
	}
	if err != nil {
		return err
	}
	return f.reindex(conn)
}

// reindex brings the indexes up to date where the item's place has changed.
func (f *fold) reindex(conn *sqlite.Conn) error {
	for _, x := range table.Indexes {
		before, stood := f.base.Entry(x)
		after, stands := f.item.Entry(x)
		if err := f.move(conn, string(x), before, stood, after, stands); err != nil {
			return err
		}
	}
	before, expired := expiry(f.base)
	after, expires := expiry(f.item)
	return f.move(conn, table.TTLAttribute, before, expired, after, expires)
}

func (f *fold) move(conn *sqlite.Conn, idx string, before table.Key, stood bool, after table.Key, stands bool) error {
	if stood == stands && before == after {
		return nil
	}
	if stood {
		err := run(conn, "DELETE FROM entries WHERE idx = ? AND ipk = ? AND isk = ? AND pk = ? AND sk = ?",
			nil, idx, before.PK, before.SK, f.pk, f.sk)
		if err != nil {
			return err
		}
	}
	if !stands {
		return nil
	}
	return run(conn, "INSERT INTO entries (idx, ipk, isk, pk, sk) VALUES (?, ?, ?, ?, ?)",
		nil, idx, after.PK, after.SK, f.pk, f.sk)
}

// run executes a statement with texts as its first parameters and data, unless
// nil, as the last.
func run(conn *sqlite.Conn, sql string, data []byte, texts ...string) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return fmt.Errorf("sqltable: %w", err)
	}
	for i, s := range texts {
		stmt.BindText(i+1, s)
	}
	if data != nil {
		stmt.BindBytes(len(texts)+1, data)
	}
	if _, err := stmt.Step(); err != nil {
		return fmt.Errorf("sqltable: %w", err)
	}
	return nil
}
