package runlog

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

type runID struct{ org, run string }

// buffer holds the events of a run that are not stored yet. It is removed when
// it is empty.
type buffer struct {
	linger time.Duration // maximum buffering time of an event
	id     runID

	held    *atomic.Int64 // total bytes in the buffers of the process
	writing chan struct{} // a lock, held while batches are written to keep their order

	// Under writing:
	queue     []*pending // taken and not known to be stored
	unchecked bool       // a batch may have been stored since the last check for the archive

	mu     sync.Mutex // guards the fields below
	lines  bytes.Buffer
	events int
	queued int    // bytes in the queue
	lost   int    // dropped events
	flight string // id of the batch being written
	timer  *time.Timer
	asked  bool // a flush of what is held was asked for
	whole  bool // it contains the whole log of the run, see Store.Begin
	dead   bool // out of the map: nothing may be added
}

// firstBytes is the initial capacity after a run's first events: enough for a
// run of one task.
const firstBytes = 1 << 10

// pending is a batch that is being stored.
type pending struct {
	data     []byte
	events   int
	id       string // of the batch, once generated
	ref      string // object for data, once generated
	uploaded bool   // the object is stored
}

// batch returns the item of the batch, without its partition.
func (p *pending) batch() batch {
	item := batch{Key: table.Key{SK: p.id}, Events: p.events, Ref: p.ref}
	if p.ref == "" {
		item.Data = string(p.data)
	}
	return item
}

// lock acquires the right to write batches, until unlock.
func (b *buffer) lock(ctx context.Context) error {
	select {
	case b.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("runlog: store batch: %w", ctx.Err())
	}
}

func (b *buffer) unlock() { <-b.writing }

// size returns the number of queued bytes.
func (b *buffer) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queued
}

// add appends lines and returns the total of buffered bytes, and whether the
// caller must request a flush; ok is false if the buffer was removed.
func (b *buffer) add(lines []byte, events int, flush func()) (held int, ask, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead {
		return 0, false, false
	}
	if b.lines.Cap() == 0 {
		b.lines.Grow(len(lines) + firstBytes)
	}
	b.lines.Write(lines)
	b.held.Add(int64(len(lines)))
	b.events += events
	b.arm(b.linger, flush)
	held = b.lines.Len() + b.queued
	ask = b.lines.Len() > BatchBytes && !b.asked
	b.asked = b.asked || ask
	return held, ask, true
}

// arm schedules flush. The caller holds mu.
func (b *buffer) arm(after time.Duration, flush func()) {
	if b.timer == nil {
		b.timer = time.AfterFunc(after, flush)
	}
}

// disarm records that a flush began.
func (b *buffer) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.asked = false
}

// take moves buffered events to the queue. The caller holds writing.
func (b *buffer) take(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost > 0 {
		n := b.lines.Len()
		_ = Event{
			EventType: TypeLog, Level: "warning", Logger: "millrace", RunID: b.id.run, Timestamp: clock.ToMillis(now),
			Message: fmt.Sprintf("%d events are missing here: they came faster than the log store took them.", b.lost),
		}.appendLine(&b.lines)
		b.held.Add(int64(b.lines.Len() - n))
		b.events++
		b.lost = 0
	}
	data, n := b.lines.Bytes(), b.events
	b.lines, b.events = bytes.Buffer{}, 0 // the batch keeps the old buffer
	b.queue = split(b.queue, data, n)
	b.queued += len(data)
}

// stored removes the first batch from the queue.
func (b *buffer) stored() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(len(b.queue[0].data))
	b.queue, b.flight = b.queue[1:], ""
}

// archived removes all batches from the queue.
func (b *buffer) archived() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(b.queued)
	b.queue, b.flight = nil, ""
}

// release subtracts bytes of the queue. The caller holds mu.
func (b *buffer) release(bytes int) {
	b.queued -= bytes
	b.held.Add(-int64(bytes))
}

// fly records the batch being written.
func (b *buffer) fly(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flight = id
}

// part records that the buffer no longer contains the whole log.
func (b *buffer) part() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = false
}

// isWhole reports whether the buffer contains the whole log of the run.
func (b *buffer) isWhole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole
}

// drop makes room if nothing can be stored, and returns the number of dropped
// events.
func (b *buffer) drop() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines.Len()+b.queued <= backlog && b.held.Load() <= memory {
		return 0
	}
	n := b.events
	b.lost += n
	b.held.Add(-int64(b.lines.Len()))
	b.lines, b.events = bytes.Buffer{}, 0
	return n
}

// split splits data into batches of whole lines.
func split(queue []*pending, data []byte, events int) []*pending {
	for len(data) > batchMax {
		n := bytes.LastIndexByte(data[:batchMax], '\n') + 1
		if n == 0 {
			n = bytes.IndexByte(data, '\n') + 1
		}
		part := bytes.Count(data[:n], []byte{'\n'})
		queue = append(queue, &pending{data: data[:n], events: part})
		data, events = data[n:], events-part
	}
	if events > 0 {
		queue = append(queue, &pending{data: data, events: events})
	}
	return queue
}
