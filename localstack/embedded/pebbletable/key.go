package pebbletable

import (
	"encoding/binary"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/table"
)

func itemKey(key table.Key) []byte {
	b := make([]byte, 0, len(key.PK)+len(key.SK)+8)
	return appendKey(append(b, store.ItemSpace), key)
}

func appendKey(b []byte, key table.Key) []byte {
	return store.AppendPart(store.AppendPart(b, key.PK), key.SK)
}

// entryKey returns the key of an item's index entry.
func entryKey(x table.Index, entry, key table.Key) []byte {
	return appendKey(appendKey(partition(x, ""), entry), key)
}

// expiryKey returns the key of an item's entry among the expiries, ordered by
// second.
func expiryKey(second int64, key table.Key) []byte {
	return appendKey(expiryBound(second), key)
}

func expiryBound(second int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{store.ExpirySpace}, uint64(second))
}

// expiry returns the second after which an item may be removed, 0 for never.
func expiry(item table.Item) int64 {
	if ttl := item[table.TTLAttribute]; ttl.Kind() == table.Number {
		return max(ttl.Int(), 0)
	}
	return 0
}

// partition returns the key prefix of a partition of the table or an index; of
// all partitions of an index, if pk is empty.
func partition(x table.Index, pk string) []byte {
	b := make([]byte, 0, 128)
	if x == "" {
		return store.AppendPart(append(b, store.ItemSpace), pk)
	}
	b = store.AppendPart(append(b, store.EntrySpace), string(x))
	if pk == "" {
		return b
	}
	return store.AppendPart(b, pk)
}

// bounds returns the key range of a query: from lower (included) to upper
// (excluded).
func bounds(q table.Query, start table.Position) (lower, upper []byte) {
	all := partition(q.Index, q.PK)
	from := func() []byte { return store.AppendPart(all[:len(all):len(all)], q.Range.From) }
	lower, upper = all, store.After(all)
	switch q.Range.Kind {
	case table.RangeEqual:
		lower, upper = from(), store.After(from())
	case table.RangePrefix:
		whole := from()
		lower = whole[:len(whole)-2] // without its terminator
		upper = store.After(lower)
	case table.RangeBetween:
		lower, upper = from(), store.After(store.AppendPart(all[:len(all):len(all)], q.Range.To))
	case table.RangeAtLeast:
		lower = from()
	case table.RangeAfter:
		lower = store.After(from())
	case table.RangeAtMost:
		upper = store.After(from())
	case table.RangeBefore:
		upper = from()
	}
	if start == (table.Position{}) {
		return lower, upper
	}
	// The cursor is within the range and replaces the bound that it passes.
	at := itemKey(start.Key)
	if q.Index != "" {
		at = entryKey(q.Index, start.Entry, start.Key)
	}
	if q.Reverse {
		return lower, at
	}
	return append(at, 0), upper
}
