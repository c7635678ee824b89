package fsck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
)

// Read takes a snapshot of an embedded server's data directory; objects as for
// [New]. The server must not run; it may have been killed. Read changes
// nothing.
func Read(ctx context.Context, dir string, objects blob.Store) (_ *Snapshot, err error) {
	db, err := store.Open(datadir.Store(dir), store.Options{ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return ReadStore(ctx, db, objects)
}

// ReadStore is Read for an open store.
func ReadStore(ctx context.Context, db *store.DB, objects blob.Store) (*Snapshot, error) {
	var items []table.Item
	var messages []Message
	var damage []string
	entries := map[Entry]bool{}
	damaged := func(err error) { damage = append(damage, err.Error()) }
	err := pebbletable.Dump(ctx, db, func(item table.Item) error {
		items = append(items, item)
		return nil
	}, func(e pebbletable.Entry) error {
		entries[Entry{string(e.Index), e.At, e.Item}] = true
		return nil
	}, damaged)
	if err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	if err := pebblequeue.Dump(ctx, db, func(m pebblequeue.Kept) error {
		messages = append(messages, Message{m.Queue, m.Group, m.Visible, m.Body})
		return nil
	}, damaged); err != nil {
		return nil, fmt.Errorf("fsck: %w", err)
	}
	s, err := New(ctx, time.Now(), items, objects)
	if err != nil {
		return nil, err
	}
	s.Entries, s.Messages = entries, messages
	s.problems = append(s.problems, damage...)
	return s, nil
}
