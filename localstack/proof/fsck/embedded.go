package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"millrace/localstack/embedded/sqlqueue"
	"millrace/localstack/embedded/sqltable"
	"millrace/localstack/embedded/store"
	"millrace/shared/blob"
	"millrace/shared/clock"
	"millrace/shared/table"
)

// Read takes a snapshot of an embedded server's file; objects as for [New]. The
// server must not run. What it left is left as it is, also by one that was
// killed: a copy is brought up to date and read.
func Read(ctx context.Context, file string, objects blob.Store) (_ *Snapshot, err error) {
	dir, err := os.MkdirTemp("", "millrace-fsck-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, filepath.Base(file))
	files, err := filepath.Glob(file + "*")
	if err != nil {
		return nil, err
	}
	for _, from := range files {
		if strings.HasSuffix(from, "-shm") || strings.HasSuffix(from, ".lock") {
			continue // belongs to those who have the file open
		}
		if err := clone(from, filepath.Join(dir, filepath.Base(from))); err != nil {
			return nil, fmt.Errorf("fsck: %w", err)
		}
	}
	if err := fold(ctx, path); err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenWAL)
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return read(ctx, conn, objects)
}

// fold brings what a server left in its journal into the database.
func fold(ctx context.Context, path string) (err error) {
	db, err := store.Open(path, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := sqltable.New(db, clock.System{}); err != nil {
		return err
	}
	queues, err := sqlqueue.New(ctx, db, clock.System{}, nil) // none is defined, so no message is touched
	if err != nil {
		return err
	}
	return queues.Close()
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
