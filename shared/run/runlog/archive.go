package runlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/run/runstate"
)

// Limits of building an archive.
const (
	maxSpent = 10_000 // remembered batches to be cleared; more are looked up again
	maxFresh = 1_000  // batches that one merge adds to an archive
	tries    = 20     // attempts if other processes intervene
)

// errChanged means that another process changed the head of the log meanwhile.
var errChanged = errors.New("runlog: the archive was changed by others")

// Archive converts the run's batches to its archive and removes them. It is
// idempotent: if the archive exists, remaining batches are merged into it. A
// process that writes a batch later merges it itself (see [Store.Flush]), so
// that batches outlive the archive only after a crash, which the next Flush or
// Archive of the run that has something to write repairs.
//
// Events still in memory go directly into the archive, so the log of a short
// run is written once.
func (s *Store) Archive(ctx context.Context, org, run string) error {
	b := s.buffer(runID{org, run}, false)
	if b == nil {
		return s.archive(ctx, runID{org, run}, nil)
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	b.disarm()
	if err := s.end(ctx, b); err != nil {
		s.rearm(b, again)
		return err
	}
	s.retire(b)
	return nil
}

// end adds the buffered events to the archive. The caller holds writing.
func (s *Store) end(ctx context.Context, b *buffer) error {
	err := s.drain(ctx, b) // a failed batch may have been stored
	if err != nil {
		return err
	}
	b.take(s.Clock.Now())
	if b.size() > BatchBytes {
		if err := s.drain(ctx, b); err != nil {
			return err
		}
	}
	for _, p := range b.queue {
		p.id = s.draw()
	}
	err = errChanged
	if b.isWhole() {
		b.part() // whatever the result is
		err = s.first(ctx, b.id, b.queue)
	}
	if errors.Is(err, errChanged) {
		err = s.archive(ctx, b.id, b.queue)
	}
	if err != nil {
		return err
	}
	b.archived()
	b.unchecked = false
	return nil
}

// first writes the archive of a log of which nothing is stored. Errors:
// errChanged if something is.
func (s *Store) first(ctx context.Context, id runID, log []*pending) error {
	b, events := builder{}, 0
	defer func() { _ = b.out.Close() }()
	for _, p := range log {
		if err := b.add(p.id, p.data, p.events); err != nil {
			return fmt.Errorf("runlog: archive: %w", err)
		}
		events += p.events
	}
	if err := b.close(); err != nil {
		return fmt.Errorf("runlog: archive: %w", err)
	}
	_, err := s.replace(ctx, id, archive{Key: runstate.ArchiveKey(id.org, id.run)}, &b, events)
	return err
}

// archive builds the archive from the stored and buffered batches, or merges
// them into the existing one.
func (s *Store) archive(ctx context.Context, id runID, tail []*pending) error {
	for lost := 0; ; {
		head, err := s.head(ctx, id)
		if err != nil {
			return err
		}
		var done bool
		if head.stands() {
			done, err = s.merge(ctx, head, id, tail)
		} else {
			done, err = s.build(ctx, head, id, tail)
		}
		if errors.Is(err, blob.ErrNotFound) {
			// Another process archived the batch, or replaced the archive, that was
			// about to be read.
			if now, again := s.head(ctx, id); again == nil && now.Version != head.Version {
				err = errChanged
			}
		}
		if errors.Is(err, errChanged) && lost < tries {
			// Another process won. The pause grows up to 1.3 s, so that one of many wins soon.
			_ = clock.Sleep(ctx, rand.N(10*time.Millisecond<<min(lost, 7)))
			lost++
			continue
		}
		if err != nil || done {
			return err
		}
	}
}

// build builds the first archive. It returns false if there is more to merge.
// Errors: errChanged.
func (s *Store) build(ctx context.Context, head archive, id runID, tail []*pending) (done bool, err error) {
	left := []spent{}
	stored := remember(s.batches(ctx, id, head.Shards, all, 0), &left)
	made, err := s.rebuild(ctx, id, head, nil, merged(stored, queued(tail)))
	if err != nil {
		return false, err
	}
	if err := s.clear(ctx, left); err != nil {
		return false, err
	}
	//guard:log/again return true, nil
	return s.merge(ctx, made, id, nil) // batches stored since they were read
}

// remember records the batches of seq, up to maxSpent.
func remember(seq iter.Seq2[batch, error], left *[]spent) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		for b, err := range seq {
			if err == nil && len(*left) < maxSpent {
				*left = append(*left, spent{b.Key, b.Ref})
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// merge adds the remaining and buffered batches to an archive, except those it
// has, and removes them. It returns false if there is more to merge. Errors:
// errChanged.
func (s *Store) merge(ctx context.Context, head archive, id runID, tail []*pending) (done bool, err error) {
	if err := s.remove(ctx, head.Replaced); err != nil {
		return false, err
	}
	has := &contents{store: s, archive: head}
	var fresh []batch
	var left []spent
	done = true
	for b, err := range merged(s.batches(ctx, id, head.Shards, all, 0), queued(tail)) { //guard:log/left arg 1.3 1
		if err != nil {
			return false, err
		}
		known, err := has.batch(ctx, b.SK)
		if err != nil {
			return false, err
		}
		if !known && len(fresh) == maxFresh || len(left) == maxSpent {
			done = false
			break
		}
		if !known { //guard:log/once true
			fresh = append(fresh, b)
		}
		if b.PK != "" {
			left = append(left, spent{b.Key, b.Ref})
		}
		if len(left) >= maxFresh && len(fresh) == 0 {
			if err := s.clear(ctx, left); err != nil {
				return false, err
			}
			left = left[:0]
		}
	}
	if len(fresh) > 0 {
		made, err := s.rebuild(ctx, id, head, has, sequence(fresh))
		if err != nil {
			return false, err
		}
		if err := s.remove(ctx, made.Replaced); err != nil {
			return false, err
		}
	}
	return done, s.clear(ctx, left)
}

func sequence(batches []batch) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// rebuild builds an archive from an existing one, if any, and from batches that
// it does not have, in order, and makes it the run's. Errors: errChanged.
func (s *Store) rebuild(ctx context.Context, id runID, old archive, has *contents, fresh iter.Seq2[batch, error]) (archive, error) {
	b := builder{}
	defer func() { _ = b.out.Close() }()
	next, stop := iter.Pull2(fresh)
	defer stop()
	in := &intake{store: s, builder: &b, source: source{next: next}}
	in.advance()
	if has != nil {
		if err := has.copy(ctx, in); err != nil {
			return archive{}, fmt.Errorf("runlog: archive: %w", err)
		}
	}
	if err := in.upTo(ctx, ""); err != nil {
		return archive{}, fmt.Errorf("runlog: archive: %w", err)
	}
	if err := b.close(); err != nil {
		return archive{}, fmt.Errorf("runlog: archive: %w", err)
	}
	return s.replace(ctx, id, old, &b, old.Events+in.events)
}
