package table

import (
	"context"
	"maps"
	"sync"
)

// Capacity units follow the DynamoDB developer guide, "DynamoDB read and write
// operations" (unit sizes, minimums, failed conditions), "Working with
// transactions" (twice the units) and "Using global secondary indexes" (what an
// index write costs).

// Units are capacity units: a write unit is 1 KB written, a read unit 4 KB read
// consistently or 8 KB read eventually.
type Units struct{ Read, Write float64 }

// Plus returns the sum.
func (u Units) Plus(v Units) Units {
	return Units{Read: u.Read + v.Read, Write: u.Write + v.Write}
}

// WriteUnits returns the cost of writing one item of size bytes: one unit for
// each started KB, and at least one, even if there is no item. Index entries
// cost the same, as does a write whose condition failed (by the size of the
// stored item).
func WriteUnits(size int) float64 { return float64(max(1, (size+1023)/1024)) }

// ReadUnits returns the cost of reading size bytes: one unit for each started 4
// KB, and at least one; half of that for an eventually consistent read. Get and
// BatchGet round each item, Query the sum of a page.
func ReadUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+4095)/4096))
	if !consistent {
		units /= 2
	}
	return units
}

// TransactionFactor is the price factor of an item in a transaction, because
// DynamoDB prepares and commits it. Index entries are written after the commit
// at the normal price.
const TransactionFactor = 2

// IndexWriteUnits returns the cost of updating an index when old is replaced by
// new (nil: no item). Putting or deleting an entry costs its size, moving one
// costs a delete and a put, and an unchanged entry costs nothing.
func IndexWriteUnits(x Index, old, new Item) float64 {
	before, stood := old.Entry(x)
	after, stands := new.Entry(x)
	if stood && stands && before == after {
		return 0
	}
	units := 0.0
	if stood {
		units += WriteUnits(entrySize(x, before, old.Key()))
	}
	if stands {
		units += WriteUnits(entrySize(x, after, new.Key()))
	}
	return units
}

// Operation is a kind of request, with DynamoDB's name.
type Operation string

// The operations that the drivers use.
const (
	OpGet        Operation = "GetItem"
	OpBatchGet   Operation = "BatchGetItem"
	OpPut        Operation = "PutItem"
	OpUpdate     Operation = "UpdateItem"
	OpDelete     Operation = "DeleteItem"
	OpBatchWrite Operation = "BatchWriteItem"
	OpTransact   Operation = "TransactWriteItems"
	OpQuery      Operation = "Query"
)

// Usage is the count of a Meter.
type Usage struct {
	Table    Units
	Indexes  map[Index]Units
	Requests map[Operation]int
}

// Total returns the sum of the units of the table and its indexes.
func (u Usage) Total() Units {
	total := u.Table
	for _, units := range u.Indexes {
		total = total.Plus(units)
	}
	return total
}

// Meter adds up the capacity consumed by the operations of a context. A nil
// Meter counts nothing. It is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	usage Usage
}

// Add counts a request and the units it consumed of the table.
func (m *Meter) Add(op Operation, units Units) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.usage.Requests == nil {
		m.usage.Requests = map[Operation]int{}
	}
	m.usage.Requests[op]++
	m.usage.Table = m.usage.Table.Plus(units)
}

// AddIndex counts units consumed of an index.
func (m *Meter) AddIndex(x Index, units Units) {
	if m == nil || units == (Units{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.usage.Indexes == nil {
		m.usage.Indexes = map[Index]Units{}
	}
	m.usage.Indexes[x] = m.usage.Indexes[x].Plus(units)
}

// Usage returns the counts so far.
func (m *Meter) Usage() Usage {
	if m == nil {
		return Usage{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	u.Indexes, u.Requests = maps.Clone(u.Indexes), maps.Clone(u.Requests)
	return u
}

// Reset returns the counts so far and sets them to zero.
func (m *Meter) Reset() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	m.usage = Usage{}
	return u
}

type meterKey struct{}

// WithMeter returns a context whose operations are counted by m.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterFrom returns the context's meter, or nil.
func MeterFrom(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
