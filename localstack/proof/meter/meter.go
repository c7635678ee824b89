// Package meter counts the service's requests to its platform: capacity of the
// table, requests to the queues, the object store and the bus. Each counter
// wraps a driver and reports to one Meter, whoever calls.
package meter

import (
	"sync"

	"millrace/shared/platform/table"
)

// Usage is the count of a Meter.
type Usage struct {
	Table    table.Usage
	Sends    int // requests that sent messages, of up to ten
	Receives int // requests that received messages
	Deletes  int // requests that deleted messages
	Extends  int // requests that changed visibility time-outs
	Depths   int // requests for the number of visible messages
	Messages int // messages sent
	Puts     int // objects written
	Gets     int // objects read
	Events   int // events published on the bus
}

// QueueRequests returns the total of requests to queues, as SQS bills them.
func (u Usage) QueueRequests() int { return u.Sends + u.Receives + u.Deletes + u.Extends + u.Depths }

// Meter adds up the counts of its counters. The zero Meter is ready to use. It
// is safe for concurrent use.
type Meter struct {
	table table.Meter

	mu    sync.Mutex
	usage Usage
}

// Table wraps a table and counts the capacity consumed.
func (m *Meter) Table(next table.Table) table.Table { return table.Metered(next, &m.table) }

// Reset returns the counts so far and sets them to zero.
func (m *Meter) Reset() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	m.usage = Usage{}
	u.Table = m.table.Reset()
	return u
}

func (m *Meter) add(count func(*Usage)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count(&m.usage)
}
