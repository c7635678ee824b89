// Package meter counts what the service asks of its platform: capacity of the
// table, requests to the queues, the object store and the bus. Each counter
// stands before a driver of the port and reports to one Meter, whoever calls.
package meter

import (
	"sync"

	"millrace/shared/platform/table"
)

// Usage is what a Meter has counted.
type Usage struct {
	Table    table.Usage
	Sends    int // requests that sent messages, of up to ten
	Receives int // requests that got messages
	Deletes  int // requests that deleted messages
	Extends  int // requests that changed when messages are delivered again
	Depths   int // requests for the number of messages that are ready
	Messages int // messages sent
	Puts     int // objects written
	Gets     int // objects read
	Events   int // events published on the bus
}

// QueueRequests is every request to a queue, as SQS charges them.
func (u Usage) QueueRequests() int { return u.Sends + u.Receives + u.Deletes + u.Extends + u.Depths }

// Meter adds up what its counters see. The zero Meter is ready. Safe for
// concurrent use.
type Meter struct {
	table table.Meter

	mu    sync.Mutex
	usage Usage
}

// Table counts the capacity that calls to a table consume.
func (m *Meter) Table(next table.Table) table.Table { return table.Metered(next, &m.table) }

// Reset returns what has been counted and begins anew.
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
