package runlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/shared/blob"
	"millrace/shared/clock"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// The sizes and times of batches.
const (
	Linger      = 500 * time.Millisecond // the longest an event waits in memory
	BatchBytes  = 64 << 10               // a batch this large is written at once
	InlineBytes = 4 << 10                // a larger batch or archive is an object
	batchMax    = 512 << 10              // no batch of several lines is larger
	backlog     = 4 << 20                // bytes of one run kept in memory before Append waits
)

// The times of a write.
const (
	putTime   = 300 * time.Millisecond // for one attempt; less than settle
	putTries  = 4
	flushTime = 30 * time.Second // for a flush that nobody waits for
	again     = 2 * time.Second  // until a flush that failed is tried again
)

// batch is the item of one batch of events.
type batch struct {
	table.Key
	Events int    `table:"n"`
	Data   string `table:"d,omitempty"` // NDJSON
	Ref    string `table:"ref,omitempty"`
}

// Store writes and reads logs. It is safe for concurrent use.
type Store struct {
	Table table.Table
	Blob  blob.Store
	Clock clock.Clock
	Log   *slog.Logger

	mu      sync.Mutex
	runs    map[runID]*buffer
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds of the last id
}

// scratch is buffers in which events become lines.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Append takes events of a run. They are written within [Linger], or by the
// next Flush. It waits only when the run writes faster than the store takes it;
// when the store takes nothing for long, events are dropped, and an event in
// the log says how many.
func (s *Store) Append(org, run string, events ...Event) {
	lines := scratch.Get().(*bytes.Buffer)
	defer func() {
		if lines.Cap() <= 4*MaxLine {
			lines.Reset()
			scratch.Put(lines)
		}
	}()
	n := 0
	for _, e := range events {
		if err := e.appendLine(lines); err != nil {
			s.Log.Error("log event lost", "org_id", org, "run_id", run, "error", err)
			continue
		}
		n++
	}
	if n == 0 {
		return
	}
	for {
		b := s.buffer(runID{org, run}, true)
		held, ask, ok := b.add(lines.Bytes(), n, func() { s.flushLogged(b) })
		switch {
		case !ok:
			continue
		case held > backlog:
			s.flushLogged(b)
			if n := b.drop(); n > 0 {
				s.Log.Error("log events lost", "org_id", org, "run_id", run, "events", n)
			}
		case ask:
			go s.flushLogged(b)
		}
		return
	}
}

// Flush writes what is buffered of a run. After an error it is still buffered.
func (s *Store) Flush(ctx context.Context, org, run string) error {
	b := s.buffer(runID{org, run}, false)
	if b == nil {
		return nil
	}
	return s.flush(ctx, b)
}

// Close writes everything that is buffered.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	all := make([]*buffer, 0, len(s.runs))
	for _, b := range s.runs {
		all = append(all, b)
	}
	s.mu.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, s.flush(ctx, b))
	}
	return errors.Join(errs...)
}

func (s *Store) buffer(id runID, create bool) *buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.runs[id]
	if b == nil && create {
		if s.runs == nil {
			s.runs = map[runID]*buffer{}
		}
		b = &buffer{id: id, writing: make(chan struct{}, 1)}
		s.runs[id] = b
	}
	return b
}

// retire forgets a buffer that holds nothing, or whatever it holds when the run
// is over.
func (s *Store) retire(b *buffer, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.runs[b.id] != b || !over && (b.events > 0 || b.queued > 0 || b.lost > 0) {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.dead = true
	b.lines, b.events = bytes.Buffer{}, 0
	delete(s.runs, b.id)
}

func (s *Store) flushLogged(b *buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := s.flush(ctx, b); err != nil {
		s.Log.Error("log batch not stored yet", "org_id", b.id.org, "run_id", b.id.run, "error", err)
	}
}

// flush writes what is held. What could not be written stays, to be tried again.
func (s *Store) flush(ctx context.Context, b *buffer) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	b.disarm()
	err := s.drain(ctx, b) // what failed before; until it is stored nothing is added to it
	if err == nil {
		b.take(s.Clock.Now())
		err = s.drain(ctx, b)
	}
	if err != nil {
		s.rearm(b)
		return err
	}
	s.retire(b, false)
	return nil
}

// rearm makes sure that what could not be written is tried again.
func (s *Store) rearm(b *buffer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dead {
		b.arm(again, func() { s.flushLogged(b) })
	}
}

func (s *Store) drain(ctx context.Context, b *buffer) error {
	for len(b.queue) > 0 {
		if err := s.write(ctx, b, b.queue[0]); err != nil {
			return err
		}
		b.stored()
	}
	return nil
}

// write stores one batch. Its id is drawn just before it is stored: readers
// rely on a batch being there shortly after the time in its id (see settle). So
// an attempt that takes longer, or whose outcome is not known, is undone and
// made again under a new id.
func (s *Store) write(ctx context.Context, b *buffer, p *pending) error {
	if p.ref == "" && len(p.data) > InlineBytes {
		ref := runstate.Object(b.id.org, b.id.run, "log/"+s.draw()+".ndjson")
		if _, err := blob.PutBytes(ctx, s.Blob, ref, p.data, blob.PutOptions{ContentType: "application/x-ndjson"}); err != nil {
			return fmt.Errorf("runlog: store batch: %w", err)
		}
		p.ref = ref
	}
	item := batch{Events: p.events, Ref: p.ref}
	if p.ref == "" {
		item.Data = string(p.data)
	}
	var err error
	for range putTries {
		item.Key = table.Key{PK: runstate.LogPartition(b.id.org, b.id.run), SK: p.id}
		if p.id != "" {
			if err = s.Table.Delete(ctx, table.Delete{Key: item.Key}); err != nil {
				break
			}
		}
		p.id = s.draw()
		b.fly(p.id)
		item.SK = p.id
		if err = s.put(ctx, item); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("runlog: store batch: %w", err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, item batch) error {
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	return s.Table.Put(ctx, table.Put{Item: item})
}

// draw makes an id that sorts after those drawn before, here.
func (s *Store) draw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		s.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	s.last = max(s.last, ulid.Timestamp(s.Clock.Now()))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // the millisecond's ids are used up
		s.last++
		id = ulid.MustNew(s.last, s.entropy)
	}
	return id.String()
}

func (s *Store) data(ctx context.Context, b batch) ([]byte, error) {
	if b.Ref == "" {
		return []byte(b.Data), nil
	}
	data, _, err := blob.GetBytes(ctx, s.Blob, b.Ref, 2*backlog)
	return data, err
}
