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

// entryKey is an item's place in an index.
func entryKey(x table.Index, entry, key table.Key) []byte {
	return appendKey(appendKey(partition(x, ""), entry), key)
}

// expiryKey is an item's place among those that expire, by the second.
func expiryKey(second int64, key table.Key) []byte {
	return appendKey(expiryBound(second), key)
}

func expiryBound(second int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{store.ExpirySpace}, uint64(second))
}

// expiry is the second after which an item may be removed, 0 for never.
func expiry(item table.Item) int64 {
	if ttl := item[table.TTLAttribute]; ttl.Kind() == table.Number {
		return max(ttl.Int(), 0)
	}
	return 0
}

// partition is what the keys of a partition of the table or an index begin with;
// of an index's all partitions, for the empty pk.
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

// bounds are the keys of a query: from lower on, before upper.
func bounds(q table.Query, start table.Position) (lower, upper []byte) {
	all := partition(q.Index, q.PK)
	from := func() []byte { return store.AppendPart(all[:len(all):len(all)], q.Range.From) }
	lower, upper = all, store.After(all)
	switch q.Range.Kind {
	case table.RangeEqual:
		lower, upper = from(), store.After(from())
	case table.RangePrefix:
		whole := from()
		lower = whole[:len(whole)-2] // without its end
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
	// The cursor lies within the range, so it stands for the bound it passes.
	at := itemKey(start.Key)
	if q.Index != "" {
		at = entryKey(q.Index, start.Entry, start.Key)
	}
	if q.Reverse {
		return lower, at
	}
	return append(at, 0), upper
}
