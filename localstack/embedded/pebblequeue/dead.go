package pebblequeue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/queue"
)

const (
	// DeadLife is the retention of messages in a dead-letter queue.
	DeadLife = 14 * 24 * time.Hour
	// MaxDead is the most messages that a dead-letter queue keeps. The first ones
	// show what went wrong; messages that find the queue full are removed.
	MaxDead = 1000
)

// DeadLetter is a message that was not deleted after MaxReceives deliveries.
type DeadLetter struct {
	Queue, Group string // the queue it was sent to
	Sent         time.Time
	Receives     int
	Body         []byte
	Kept         bool // stored in the dead-letter queue; false if that was full
}

// Watch calls f with each dead letter, in a goroutine that Close waits for. It
// must be called before the queues are used.
func (s *Queues) Watch(f func(DeadLetter)) { s.watch = f }

// report reports a buried message. It must not block, because the lane's lock is
// held.
func (s *Queues) report(d DeadLetter) {
	if s.watch != nil {
		s.telling.Go(func() { s.watch(d) })
	}
}

// Sweep removes the messages that have been in dead-letter queues for DeadLife,
// and returns their number. Messages of other queues are removed by their
// handlers or become dead letters.
func (s *Queues) Sweep(ctx context.Context) (int, error) {
	removed := 0
	for _, l := range s.lanes {
		if l.dead != nil {
			continue
		}
		n, err := l.expire(ctx, s.now()-DeadLife.Microseconds())
		removed += n
		if err != nil {
			return removed, fmt.Errorf("pebblequeue: sweep %s: %w", l.name, err)
		}
	}
	return removed, nil
}

// expire removes the messages that have been visible since the given time or
// longer, except those in flight.
func (l *lane) expire(ctx context.Context, since int64) (int, error) {
	var positions []position
	err := l.queues.db.Scan(ctx, l.prefix, store.After(l.prefix), false, func(key, _ []byte) (more bool, err error) {
		p, err := parsePosition(key[len(l.prefix):])
		if err == nil && p.at <= since {
			positions = append(positions, p)
		}
		return true, err
	})
	if err != nil || len(positions) == 0 {
		return 0, err
	}
	l.mu.Lock()
	l.settle(l.queues.now())
	positions = slices.DeleteFunc(positions, func(p position) bool {
		m := l.held[p.seq]
		if m != nil && !m.timer.set() {
			m.deleting = true
		}
		return m != nil && m.timer.set()
	})
	l.mu.Unlock()
	return l.discard(ctx, positions)
}

// discard deletes messages from the store and returns how many existed.
func (l *lane) discard(ctx context.Context, positions []position) (gone int, err error) {
	defer l.forget(positions)
	err = l.queues.db.CommitLater(ctx, func(b *store.Batch) error {
		gone = 0
		for _, p := range positions {
			key := p.key(l.prefix)
			_, found, err := b.Get(key)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			gone++
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return l.count(b, -gone)
	})
	return gone, err
}

// bury moves a held message to the dead-letter queue under a new number.
func (l *lane) bury(m *message) error {
	var to position
	var buried *DeadLetter
	err := l.queues.db.CommitLater(context.Background(), func(b *store.Batch) error {
		key := m.key(l.prefix)
		value, found, err := b.Get(key)
		if err != nil || !found { // deleted meanwhile
			return err
		}
		r, err := parseRecord([]byte(value))
		if err != nil {
			return err
		}
		buried = &DeadLetter{
			Queue: l.name, Group: m.group, Sent: time.UnixMilli(r.sent).UTC(), Receives: queue.MaxReceives, Body: r.body,
			Kept: l.dead.total.Load() < MaxDead,
		}
		if err := b.Delete(key); err != nil {
			return err
		}
		if err := l.count(b, -1); err != nil || !buried.Kept {
			return err
		}
		r.receives = 0
		seq, err := l.queues.number(b)
		if err != nil {
			return err
		}
		to = position{group: m.group, at: l.queues.now(), seq: seq}
		if err := b.Set(to.key(l.dead.prefix), r.encode()); err != nil {
			return err
		}
		return l.dead.count(b, 1)
	})
	if err != nil {
		return err
	}
	delete(l.held, m.seq)
	if buried != nil {
		if buried.Kept {
			l.dead.add(to)
		}
		if !l.closed {
			l.queues.report(*buried)
		}
	}
	return nil
}
