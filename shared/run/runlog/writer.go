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

// The sizes and times of batches.
const (
	Linger      = 500 * time.Millisecond // the longest an event waits in memory
	BatchBytes  = 64 << 10               // a batch this large is written at once
	InlineBytes = 4 << 10                // a larger batch or archive is an object
	batchMax    = 512 << 10              // no batch of several lines is larger
	backlog     = 4 << 20                // bytes of one run kept in memory before Append waits
	memory      = 64 << 20               // bytes of all runs kept in memory before every Append waits
)

// The times of a write.
const (
	putTime   = 300 * time.Millisecond // for one attempt
	putTries  = 4
	flushTime = 30 * time.Second // for a flush
	again     = 2 * time.Second  // until a flush that failed is tried again
)

// Append takes events of a run. They are written within [Linger], or by the
// next Flush. It waits only when the run, or all runs of the process together,
// write faster than the store takes it; when the store takes nothing for long,
// events are dropped, and an event in the log says how many.
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

// Begin is called before the write by which a run begins, which only one of all
// who try succeeds in. Whoever did then calls began, before it logs: if this process
// writes logs alone, and has written none since, its memory holds the whole log, which
// is then archived without a look for more. Any batch that is written ends that.
func (s *Store) Begin(org, run string) (began func()) {
	before := s.written.Load()
	return func() {
		if !s.Sole { //guard:log/sole false
			return
		}
		b := s.buffer(runID{org, run}, true)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.whole = s.written.Load() == before //guard:log/begun true
	}
}

// Flush writes what is buffered of a run. After an error it is still buffered.
// It takes at most 30 seconds. The events of a run whose archive stands are in
// the archive when it returns without an error.
func (s *Store) Flush(ctx context.Context, org, run string) error {
	b := s.buffer(runID{org, run}, false)
	if b == nil {
		return nil
	}
	return s.flush(ctx, b, true)
}

// closers is how many runs Close writes at a time.
const closers = 16

// Close writes everything that is buffered.
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

// flushLogged is a flush that nobody waits for, and tells whether it went well.
func (s *Store) flushLogged(b *buffer) bool {
	return s.logged(b, s.flush(context.Background(), b, true))
}

// flushSoon is a flush in the middle of many events: it leaves it to the next
// one, or to the run's end, to look for the archive.
func (s *Store) flushSoon(b *buffer) {
	s.logged(b, s.flush(context.Background(), b, false))
}

func (s *Store) logged(b *buffer, err error) bool {
	if err != nil {
		s.Log.Error("log batch not stored yet", "org_id", b.id.org, "run_id", b.id.run, "error", err)
	}
	return err == nil
}

// flush writes what is held and, if look says so, looks for the archive. What
// could not be written stays, to be tried again.
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
		s.rearm(b, Linger)
	default:
		s.retire(b)
	}
	return err
}

// rearm makes sure that what is left to do is done by itself.
func (s *Store) rearm(b *buffer, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dead {
		b.arm(after, func() { s.flushLogged(b) })
	}
}

// batch writes what is held as batches.
func (s *Store) batch(ctx context.Context, b *buffer) error {
	if err := s.drain(ctx, b); err != nil { // what failed before; until it is stored nothing is added to it
		return err
	}
	b.take(s.Clock.Now())
	return s.drain(ctx, b)
}

// check looks for the archive after batches were written, for whoever made it
// may have looked for batches before these were there. The archive is written
// before its maker looks for batches once more, so that one of the two finds
// what the other wrote.
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

// write stores one batch. Its id is drawn just before the first attempt, since
// readers look only so far back for batches that come late (see lookBack), and
// never again: an attempt whose outcome is not known is repeated under the same
// id, so that whatever becomes of it the log has the batch once.
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
