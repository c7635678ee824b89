package pebbletable

import (
	"context"
	"fmt"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

// Entry is an item's key in an index. In the index named by the TTL attribute,
// which has no At, it is an item with an expiry.
type Entry struct {
	Index    table.Index
	At, Item table.Key
}

// Dump calls item with every item of a store and entry with every index entry,
// and damaged for what cannot be read.
func Dump(ctx context.Context, db *store.DB, item func(table.Item) error, entry func(Entry) error, damaged func(error)) error {
	type space struct {
		first byte
		row   func(rest []byte, value string) (found bool, err error)
	}
	for _, s := range []space{
		{store.ItemSpace, func(rest []byte, value string) (bool, error) {
			key, ok := cutKey(rest)
			if !ok {
				return false, nil
			}
			i, err := decode(key, value)
			if err != nil {
				damaged(err)
				return true, nil
			}
			return true, item(i)
		}},
		{store.EntrySpace, func(rest []byte, _ string) (bool, error) {
			index, rest, ok := store.CutPart(rest)
			e := Entry{Index: table.Index(index)}
			for _, k := range []*table.Key{&e.At, &e.Item} {
				for _, part := range []*string{&k.PK, &k.SK} {
					if ok {
						*part, rest, ok = store.CutPart(rest)
					}
				}
			}
			if !ok {
				return false, nil
			}
			return true, entry(e)
		}},
		{store.ExpirySpace, func(rest []byte, _ string) (bool, error) {
			if len(rest) < 8 {
				return false, nil
			}
			key, ok := cutKey(rest[8:])
			if !ok {
				return false, nil
			}
			return true, entry(Entry{Index: table.TTLAttribute, Item: key})
		}},
	} {
		err := db.Scan(ctx, []byte{s.first}, []byte{s.first + 1}, false, func(key, value []byte) (bool, error) {
			found, err := s.row(key[1:], string(value))
			if !found {
				damaged(fmt.Errorf("pebbletable: damaged key %q", key))
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
