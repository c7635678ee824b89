package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// Sizes and times of batches.
const (
	FlushInterval = 500 * time.Millisecond // maximum time that an event is buffered
	BatchBytes    = 64 << 10               // a batch of this size is written at once
	InlineBytes   = 4 << 10                // a larger batch or archive is stored as an object
	batchMax      = 512 << 10              // the largest batch of several lines
	backlog       = 4 << 20                // bytes of one run buffered before Append waits
	memory        = 64 << 20               // bytes of all runs buffered before every Append waits
)

// Time limits of writes.
const (
	putTime   = 300 * time.Millisecond // for one attempt
	putTries  = 4
	flushTime = 30 * time.Second // for a flush
	again     = 2 * time.Second  // delay before a failed flush is retried
)

// Append adds events of a run. They are written within [FlushInterval], or by
// the next Flush. It waits only if the run, or all runs of the process
// together, write faster than the store accepts; if the store fails for long,
// events are dropped, and an event in the log tells how many.
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
		case held > backlog || s.held.Load() > memory:
			if s.flushLogged(b) {
				return
			}
			if n := b.drop(); n > 0 {
				s.Log.Error("log events lost", "org_id", org, "run_id", run, "events", n)
			}
		case ask:
			go s.flushSoon(b)
		}
		return
	}
}

// Begin is called before the write by which a run begins, which succeeds only
// once. The successful caller then calls began, before it logs. If this process
// is the only one to write logs, and has written none of the run since, its
// memory has the whole log, which is then archived without reading the store.
// Any batch that is written ends that.
func (s *Store) Begin(org, run string) (began func()) {
	before := s.written.Load()
	return func() {
		if !s.Exclusive { //guard:log/sole false
			return
		}
		b := s.buffer(runID{org, run}, true)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.whole = s.written.Load() == before //guard:log/begun true
	}
}

// Flush writes the buffered events of a run. After an error they are still
// buffered. It takes at most 30 seconds. If the run's archive exists, the
// events are in it when Flush returns nil.
func (s *Store) Flush(ctx context.Context, org, run string) error {
	b := s.buffer(runID{org, run}, false)
	if b == nil {
		return nil
	}
	return s.flush(ctx, b, true)
}

// closers is the number of runs that Close writes concurrently.
const closers = 16

// Close writes all buffered events.
func (s *Store) Close(ctx context.Context) error {
	all := s.buffers()
	failed := make([]error, len(all))
	var work errgroup.Group
	work.SetLimit(closers)
	for i, b := range all {
		work.Go(func() error {
			failed[i] = s.flush(ctx, b, true)
			return nil
		})
	}
	_ = work.Wait()
	return errors.Join(failed...)
}

// flushLogged flushes in the background, logs an error, and reports success.
func (s *Store) flushLogged(b *buffer) bool {
	return s.logged(b, s.flush(context.Background(), b, true))
}

// flushSoon flushes while many events arrive. It leaves the check for the
// archive to the next flush, or to the end of the run.
func (s *Store) flushSoon(b *buffer) {
	s.logged(b, s.flush(context.Background(), b, false))
}

func (s *Store) logged(b *buffer, err error) bool {
	if err != nil {
		s.Log.Error("log batch not stored yet", "org_id", b.id.org, "run_id", b.id.run, "error", err)
	}
	return err == nil
}

// flush writes buffered events and, if look is set, checks for the archive.
// What could not be written stays for a retry.
func (s *Store) flush(ctx context.Context, b *buffer, look bool) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	b.disarm()
	var err error
	if s.knows(b.id).archived {
		err = s.end(ctx, b)
	} else {
		err = s.batch(ctx, b)
	}
	if err == nil && b.unchecked && look {
		err = s.check(ctx, b)
	}
	switch {
	case err != nil:
		s.rearm(b, again)
	case b.unchecked:
		s.rearm(b, FlushInterval)
	default:
		s.retire(b)
	}
	return err
}

// rearm schedules remaining work.
func (s *Store) rearm(b *buffer, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dead {
		b.arm(after, func() { s.flushLogged(b) })
	}
}

// batch writes buffered events as batches.
func (s *Store) batch(ctx context.Context, b *buffer) error {
	if err := s.drain(ctx, b); err != nil { // batches that failed before; nothing is added until they are stored
		return err
	}
	b.take(s.Clock.Now())
	return s.drain(ctx, b)
}

// check checks for the archive after batches were written, because the
// archiving process may have read the batches before these were stored. It
// writes the archive before it reads the batches again, so that one of the two
// finds what the other wrote.
func (s *Store) check(ctx context.Context, b *buffer) error {
	head, err := s.head(ctx, b.id)
	if err != nil {
		return err
	}
	if head.stands() { //guard:log/late false
		if err := s.archive(ctx, b.id, nil); err != nil {
			return err
		}
	}
	b.unchecked = false
	return nil
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

// write stores one batch. Its id is generated just before the first attempt,
// because readers look back for late batches only so far (see lookBack), and is
// never changed: an attempt with an unknown result is repeated with the same
// id, so that the log has the batch once in any case.
func (s *Store) write(ctx context.Context, b *buffer, p *pending) error {
	if !p.uploaded && len(p.data) > InlineBytes {
		if p.ref == "" {
			p.ref = runstate.Object(b.id.org, b.id.run, "log/"+s.draw()+".ndjson")
		}
		if _, err := blob.PutBytes(ctx, s.Blob, p.ref, p.data, blob.PutOptions{ContentType: "application/x-ndjson"}); err != nil {
			return fmt.Errorf("runlog: store batch: %w", err)
		}
		p.uploaded = true
	}
	if p.id == "" { //guard:log/same-id true
		p.id = s.draw()
		b.fly(p.id)
	}
	item := p.batch()
	item.Expires = s.Clock.Now().Add(keepBatch).Unix()
	b.unchecked = true
	s.written.Add(1)
	b.part() //guard:log/whole drop
	var err error
	for range putTries {
		item.PK = s.partition(b.id)
		if err = s.put(ctx, item); err == nil || ctx.Err() != nil {
			break
		}
		if errors.Is(err, table.ErrThrottled) || errors.Is(err, context.DeadlineExceeded) {
			s.spread(ctx, b.id)
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
