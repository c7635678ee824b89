package sqlqueue

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"millrace/localstack/embedded/store"
)

// unfolded is what the journal has of messages and the database has not. A
// message that is sent and deleted between two folds never reaches the database.
type unfolded struct {
	mu      sync.Mutex
	changes map[int64]*change // by message: all of its changes in one
	folding map[int64]*change // the same of the fold under way
	staged  []change          // of the group that is made
}

// Publish adds what the group staged.
func (s *Queues) Publish() {
	u := &s.unfolded
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.staged {
		u.add(c)
	}
	u.drop()
}

// Discard forgets what the group staged.
func (s *Queues) Discard() {
	s.unfolded.mu.Lock()
	defer s.unfolded.mu.Unlock()
	s.unfolded.drop()
}

// drop empties the staged changes, and keeps no body of them.
func (u *unfolded) drop() {
	clear(u.staged)
	u.staged = u.staged[:0]
}

// add merges a change into those of its message.
func (u *unfolded) add(c change) {
	before := u.changes[c.seq]
	switch {
	case before == nil:
		if u.changes == nil {
			u.changes = map[int64]*change{}
		}
		u.changes[c.seq] = &c
	case c.kind == deleted && before.kind == sent:
		delete(u.changes, c.seq)
	case before.kind == deleted:
	case c.kind == deleted:
		before.kind = deleted
	case c.kind == moved:
		before.queue, before.receives = c.queue, 0
		if before.kind == received {
			before.kind = moved
		}
	case c.kind == received:
		before.receives = c.receives
	}
}

// Freeze lists what the database does not have yet.
func (s *Queues) Freeze() (store.Fold, func()) {
	u := &s.unfolded
	u.mu.Lock()
	u.folding, u.changes = u.changes, nil
	u.mu.Unlock()
	list := make([]*change, 0, len(u.folding))
	for _, c := range u.folding {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *change) int { return cmp.Compare(a.seq, b.seq) })
	write := func(conn *sqlite.Conn) error {
		for _, c := range list {
			if err := c.write(conn); err != nil {
				return err
			}
		}
		return nil
	}
	return write, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.folding = nil
	}
}

// body returns the body of a message that the database may not have yet.
func (u *unfolded) body(seq int64) []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, changes := range []map[int64]*change{u.changes, u.folding} {
		if c := changes[seq]; c != nil && c.kind == sent {
			return c.body
		}
	}
	return nil
}

// stage adds changes to the group that is made, and to its record.
func (s *Queues) stage(record []byte, changes ...change) []byte {
	s.unfolded.mu.Lock()
	defer s.unfolded.mu.Unlock()
	for i := range changes {
		record = changes[i].append(record)
	}
	s.unfolded.staged = append(s.unfolded.staged, changes...)
	return record
}

// commit keeps changes: they survive the death of the process.
func (s *Queues) commit(ctx context.Context, changes ...change) error {
	return s.log.Commit(ctx, func(record []byte) ([]byte, error) { return s.stage(record, changes...), nil })
}

// later is changes that nobody waits for. Should they be lost, messages come
// again: a delete is repeated, and a message moved to the dead-letter queue has
// its count still.
type later struct{ changes []change }

// change adds to the changes that wait for the next group.
func (s *Queues) change(changes ...change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == nil {
		l := new(later)
		err := s.log.CommitAsync(func(record []byte) ([]byte, error) {
			s.detach(l)
			return s.stage(record, l.changes...), nil
		})
		if err != nil {
			return err
		}
		s.later = l
	}
	s.later.changes = append(s.later.changes, changes...)
	return nil
}

// detach ends adding to l, which is about to be kept.
func (s *Queues) detach(l *later) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later == l {
		s.later = nil
	}
}

// moved notes that a message went to a dead-letter queue.
func (s *Queues) moved(seq int64, to string) {
	_ = s.change(change{kind: moved, seq: seq, queue: to})
}
