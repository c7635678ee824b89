package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Reader reads a snapshot of the store.
type Reader struct {
	reader pebble.Reader
}

// Get reads a key. found is false if it does not exist.
func (r *Reader) Get(key []byte) (value string, found bool, err error) { return get(r.reader, key) }

// Scan calls each with the keys from lower (included) to upper (excluded), in
// order or in reverse, until it returns false. Key and value are valid only
// during the call.
func (r *Reader) Scan(lower, upper []byte, reverse bool, each func(key, value []byte) (more bool, err error)) error {
	it, err := r.reader.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return errors.Join(scan(it, reverse, each), it.Close())
}

// Iterator returns an iterator over a snapshot of the keys from lower
// (included) to upper (excluded). The caller must close it before the store,
// and call [DB.Wait] before it discloses what it read. Errors: ErrClosed.
func (db *DB) Iterator(lower, upper []byte) (*pebble.Iterator, error) {
	if err := db.enter(context.Background()); err != nil {
		return nil, err
	}
	defer db.use.RUnlock()
	return db.pebble.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

func scan(it *pebble.Iterator, reverse bool, each func(key, value []byte) (more bool, err error)) error {
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if more, err := each(it.Key(), value); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// Get reads a key and returns when what it read is durable. found is false if
// the key does not exist.
func (db *DB) Get(ctx context.Context, key []byte) (value string, found bool, err error) {
	slot := db.reads.slot(key)
	version := slot.version.Load()
	if v, ok := slot.get(key); ok {
		return v.Data, v.Found, db.usable(ctx)
	}
	err = db.view(ctx, func() error {
		value, found, err = get(db.pebble, key)
		return err
	})
	if err == nil && key[0] == ItemSpace {
		slot.keep(version, key, Value{value, found})
	}
	return value, found, err
}

// Value is the result of reading a key.
type Value struct {
	Data  string
	Found bool // false: the key does not exist
}

// GetAll reads several keys, as of one moment, and returns when what it read is
// durable.
func (db *DB) GetAll(ctx context.Context, keys [][]byte) ([]Value, error) {
	values, slots, versions := make([]Value, len(keys)), make([]*readSlot, len(keys)), make([]uint64, len(keys))
	cached := true
	for i, key := range keys {
		slots[i] = db.reads.slot(key)
		versions[i] = slots[i].version.Load()
		if cached {
			values[i], cached = slots[i].get(key)
		}
	}
	for i, slot := range slots {
		cached = cached && slot.version.Load() == versions[i]
	}
	if cached {
		return values, db.usable(ctx)
	}
	err := db.View(ctx, func(r *Reader) (err error) {
		for i, key := range keys {
			if values[i].Data, values[i].Found, err = r.Get(key); err != nil {
				return err
			}
		}
		return nil
	})
	for i, key := range keys {
		if err == nil && key[0] == ItemSpace {
			slots[i].keep(versions[i], key, values[i])
		}
	}
	return values, err
}

// usable returns the error of a read that the read cache answers.
func (db *DB) usable(ctx context.Context) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	db.use.RUnlock()
	return nil
}

// View calls read with a snapshot and returns when what it read is durable.
func (db *DB) View(ctx context.Context, read func(*Reader) error) error {
	return db.view(ctx, func() error {
		snapshot := db.pebble.NewSnapshot()
		return errors.Join(read(&Reader{snapshot}), snapshot.Close())
	})
}

// Scan is [Reader.Scan] of a new snapshot. It returns when what it read is
// durable.
func (db *DB) Scan(ctx context.Context, lower, upper []byte, reverse bool, each func(key, value []byte) (more bool, err error)) error {
	return db.view(ctx, func() error { return (&Reader{db.pebble}).Scan(lower, upper, reverse, each) })
}

func (db *DB) view(ctx context.Context, read func() error) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.use.RUnlock()
	if err := read(); err != nil {
		return db.Unreadable(err)
	}
	db.waitDurable() //guard:store/durable drop
	return nil
}

func get(r pebble.Reader, key []byte) (value string, found bool, err error) {
	data, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("store: %w", err)
	}
	value = string(data)
	return value, true, closer.Close()
}
