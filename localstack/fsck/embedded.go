package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"millrace/shared/blob"
	"millrace/shared/table"
)

// Read takes a snapshot of an embedded server's file; objects as for [New]. The
// server must not run. The file is left as it is, with the log of a server that
// was killed: a copy is read.
func Read(ctx context.Context, file string, objects blob.Store) (_ *Snapshot, err error) {
	dir, err := os.MkdirTemp("", "millrace-fsck-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := clone(file+suffix, path+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("fsck: %w", err)
		}
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return read(ctx, conn, objects)
}

func clone(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func read(ctx context.Context, conn *sqlite.Conn, objects blob.Store) (*Snapshot, error) {
	var items []table.Item
	var messages []Message
	var damage []string
	entries := map[Entry]bool{}
	for _, q := range []struct {
		sql string
		row func(*sqlite.Stmt) error
	}{
		{"PRAGMA integrity_check", func(s *sqlite.Stmt) error {
			if s.ColumnText(0) != "ok" {
				damage = append(damage, "the file is damaged: "+s.ColumnText(0))
			}
			return nil
		}},
		{"SELECT pk, sk, data FROM items", func(s *sqlite.Stmt) error {
			item, err := table.DecodeBinary(s.ColumnText(2), 2)
			if err != nil {
				damage = append(damage, fmt.Sprintf("item (%s, %s): %v", s.ColumnText(0), s.ColumnText(1), err))
				return nil
			}
			item["pk"], item["sk"] = table.V(s.ColumnText(0)), table.V(s.ColumnText(1))
			items = append(items, item)
			return nil
		}},
		{"SELECT idx, ipk, isk, pk, sk FROM entries", func(s *sqlite.Stmt) error {
			at, item := table.Key{PK: s.ColumnText(1), SK: s.ColumnText(2)}, table.Key{PK: s.ColumnText(3), SK: s.ColumnText(4)}
			entries[Entry{s.ColumnText(0), at, item}] = true
			return nil
		}},
		{"SELECT queue, grp, due, body FROM queue_messages", func(s *sqlite.Stmt) error {
			body := make([]byte, s.ColumnLen(3))
			s.ColumnBytes(3, body)
			messages = append(messages, Message{s.ColumnText(0), s.ColumnText(1), time.UnixMilli(s.ColumnInt64(2)), body})
			return nil
		}},
	} {
		if err := sqlitex.Execute(conn, q.sql, &sqlitex.ExecOptions{ResultFunc: q.row}); err != nil {
			return nil, fmt.Errorf("fsck: %s: %w", q.sql, err)
		}
	}
	s, err := New(ctx, time.Now(), items, objects)
	if err != nil {
		return nil, err
	}
	s.Entries, s.Messages = entries, messages
	s.problems = append(s.problems, damage...)
	return s, nil
}
