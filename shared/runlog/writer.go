package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"millrace/shared/blob"
	"millrace/shared/clock"
	"millrace/shared/ids"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// The sizes and times of batches.
const (
	Linger      = 500 * time.Millisecond // the longest an event waits in memory
	BatchBytes  = 64 << 10               // a batch this large is written at once
	InlineBytes = 4 << 10                // a larger batch or archive is an object
	backlog     = 4 << 20                // bytes of one run kept in memory before Append waits
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

	mu   sync.Mutex
	runs map[runID]*buffer
}

type runID struct{ org, run string }

// buffer holds a run's events that are not written yet.
type buffer struct {
	id      runID
	mu      sync.Mutex // held while lines are added or taken
	lines   bytes.Buffer
	events  int
	timer   *time.Timer
	writing sync.Mutex // held while a batch is written, so batches keep their order
}

// Append takes events of a run. They are written within [Linger], or by the
// next Flush. It waits only when the run writes faster than the store takes it.
func (s *Store) Append(org, run string, events ...Event) {
	if len(events) == 0 {
		return
	}
	b := s.buffer(runID{org, run}, true)
	b.mu.Lock()
	for _, e := range events {
		if err := e.appendLine(&b.lines); err != nil {
			s.Log.Error("log event lost", "run", run, "error", err)
			continue
		}
		b.events++
	}
	size := b.lines.Len()
	if b.timer == nil {
		b.timer = time.AfterFunc(Linger, func() { s.flushLogged(b) })
	}
	b.mu.Unlock()
	switch {
	case size > backlog:
		s.flushLogged(b)
	case size > BatchBytes:
		go s.flushLogged(b)
	}
}

// Flush writes what is buffered of a run.
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
		b = &buffer{id: id}
		s.runs[id] = b
	}
	return b
}

// release forgets the buffer of a run that is over.
func (s *Store) release(org, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, runID{org, run})
}

// take empties the buffer; the second result is the number of events.
func (b *buffer) take() ([]byte, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	data, n := bytes.Clone(b.lines.Bytes()), b.events
	b.lines.Reset()
	b.events = 0
	return data, n
}

func (s *Store) flushLogged(b *buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.flush(ctx, b); err != nil {
		s.Log.Error("log batch lost", "run", b.id.run, "error", err)
	}
}

func (s *Store) flush(ctx context.Context, b *buffer) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	data, n := b.take()
	if n == 0 {
		return nil
	}
	return s.write(ctx, b.id, data, n)
}

// write stores one batch. Its id is drawn just before it is stored: readers
// rely on a batch being there shortly after the time in its id (see settle).
func (s *Store) write(ctx context.Context, id runID, data []byte, events int) error {
	item := batch{Events: events}
	if len(data) > InlineBytes {
		item.Ref = runstate.Object(id.org, id.run, "log/"+ids.New(s.Clock.Now())+".ndjson")
		if _, err := blob.PutBytes(ctx, s.Blob, item.Ref, data, blob.PutOptions{ContentType: "application/x-ndjson"}); err != nil {
			return fmt.Errorf("runlog: store batch: %w", err)
		}
	} else {
		item.Data = string(data)
	}
	item.Key = table.Key{PK: runstate.LogPartition(id.org, id.run), SK: ids.New(s.Clock.Now())}
	if err := s.Table.Put(ctx, table.Put{Item: item}); err != nil {
		return fmt.Errorf("runlog: store batch: %w", err)
	}
	return nil
}

func (s *Store) data(ctx context.Context, b batch) ([]byte, error) {
	if b.Ref == "" {
		return []byte(b.Data), nil
	}
	data, _, err := blob.GetBytes(ctx, s.Blob, b.Ref, 2*backlog)
	return data, err
}
