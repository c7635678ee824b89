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

// WriteUnits is the cost of writing one item of size bytes: a unit per begun KB,
// one at least, even if there is no item. It also is the cost of one index
// entry, and of a write whose condition failed (by the size of what is stored).
func WriteUnits(size int) float64 { return float64(max(1, (size+1023)/1024)) }

// ReadUnits is the cost of reading size bytes, a unit per begun 4 KB, one at
// least, and half of that if eventually consistent. A Get or a BatchGet rounds
// each item, a Query the sum of a page.
func ReadUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+4095)/4096))
	if !consistent {
		units /= 2
	}
	return units
}

// TransactionFactor is how much more an item costs in a transaction, because
// DynamoDB prepares and commits it. Index entries are written after the commit
// and cost the same as ever.
const TransactionFactor = 2

// IndexWriteUnits is the cost of bringing an index up to date when old becomes
// new (nil: no item): putting or deleting an entry costs its size, moving one is
// a delete and a put, an unchanged one costs nothing.
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

// Operation is a kind of request, by DynamoDB's name.
type Operation string

// The operations the port makes requests of.
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

// Usage is what a Meter has counted.
type Usage struct {
	Table    Units
	Indexes  map[Index]Units
	Requests map[Operation]int
}

// Total returns the units of the table and its indexes together.
func (u Usage) Total() Units {
	total := u.Table
	for _, units := range u.Indexes {
		total = total.Plus(units)
	}
	return total
}

// Meter adds up the capacity consumed by the operations of a context. A nil
// Meter counts nothing. Safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	usage Usage
}

// Add counts a request of an operation and what it consumed of the table.
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

// AddIndex counts what was consumed of an index.
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

// Usage returns what has been counted so far.
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

// Reset returns what has been counted and begins anew.
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

// MeterFrom returns the context's meter, nil if it has none.
func MeterFrom(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
