package pebblequeue

import (
	"bytes"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"millrace/localstack/embedded/share"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/queue"
)

// taken is a message about to be returned to a receiver.
type taken struct {
	position
	record
}

func (t taken) delivery(queueName string) queue.Delivery {
	receipt, id := formatReceipt(queueName, t.position, t.receives)
	return queue.Delivery{
		ID: id, Receipt: receipt, Body: t.body, Group: t.group,
		Receives: t.receives, Sent: time.UnixMilli(t.sent).UTC(),
	}
}

// take marks up to max ready messages as delivered and returns them; with
// slots, only those of groups that get one. If there is none and signal is not
// nil, signal is registered: it receives a value when there may be one.
func (l *lane) take(max int, slots *share.Slots, signal chan struct{}) (got []taken, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	now := l.queues.now()
	l.promote(now)
	if l.turns.n > 0 {
		if got, err = l.takeTurns(max, slots, now); err != nil {
			l.requeue(got, now)
			vacate(slots, got)
			return nil, err
		}
	}
	if len(got) == 0 && signal != nil {
		l.waiters = append(l.waiters, signal)
	}
	l.arm(now)
	if len(got) > 0 || slots == nil {
		l.wake() // for the remaining messages
	}
	return got, nil
}

func (l *lane) takeTurns(max int, slots *share.Slots, now int64) (got []taken, err error) {
	g := l.turn(slots)
	if g == nil {
		return nil, nil
	}
	it, err := l.queues.db.Iterator(l.prefix, store.After(l.prefix))
	if err != nil {
		l.pass(g, slots, now)
		return nil, err
	}
	defer func() { err = l.queues.db.Unreadable(errors.Join(err, it.Close())) }()
	for ; g != nil; g = l.turn(slots) {
		m, body, err := l.nextOf(g, it, now)
		if m == nil {
			l.pass(g, slots, now)
		} else {
			m.receives++
			l.hold(m, now)
			got = append(got, taken{m.position, record{m.receives, m.sent, body}})
			l.queue(g, now)
		}
		if err != nil || len(got) == max {
			return got, err
		}
	}
	return got, nil
}

// turn removes the next group from the line: the first, or with slots the one
// that has the fewest, if it may have another. It returns nil if there is none.
func (l *lane) turn(slots *share.Slots) *group {
	i := 0
	if slots != nil {
		i = slots.First(l.turns.n, func(i int) string { return l.turns.at(i).name })
	}
	if i < 0 || i >= l.turns.n {
		return nil
	}
	g := l.turns.remove(i)
	g.queued = false
	return g
}

// pass ends the turn of a group without a message.
func (l *lane) pass(g *group, slots *share.Slots, now int64) {
	l.queue(g, now)
	if slots != nil {
		slots.Release(g.name)
	}
}

// vacate releases the slots of messages that are not returned.
func vacate(slots *share.Slots, got []taken) {
	if slots == nil {
		return
	}
	for _, t := range got {
		slots.Release(t.group)
	}
}

// nextOf removes the message of a group that has been ready longest, and finds
// the group's next message. It returns nil if none is ready.
func (l *lane) nextOf(g *group, it *pebble.Iterator, now int64) (*message, []byte, error) {
	stored, err := l.findNext(g, it)
	if err != nil {
		return nil, nil, err
	}
	for g.back.n > 0 {
		m := g.back.first()
		if stored && g.next.at < m.ready {
			break
		}
		g.back.pop()
		if m.deleting {
			continue
		}
		key := m.key(l.prefix)
		if !it.SeekGE(key) || !bytes.Equal(it.Key(), key) {
			return nil, nil, errDamaged
		}
		r, err := readRecord(it)
		return m, r.body, err
	}
	if !stored || g.next.at > now {
		return nil, nil, nil
	}
	return l.fresh(g, it, now)
}

// findNext moves a group's next, and the iterator, to its first stored message
// that this process has not delivered. It returns false if there is none.
func (l *lane) findNext(g *group, it *pebble.Iterator) (bool, error) {
	if g.empty {
		return false, nil
	}
	// Bounded to this group, so as not to scan deleted keys behind it.
	end := store.After(l.groupPrefix(g.name))
	for at := it.SeekGEWithLimit(g.next.key(l.prefix), end); at == pebble.IterValid; at = it.NextWithLimit(end) {
		p, err := parsePosition(it.Key()[len(l.prefix):])
		if err != nil {
			return false, err
		}
		if l.held[p.seq] == nil {
			g.next = p
			return true, nil
		}
	}
	g.empty = true
	return false, it.Error()
}

// fresh takes a group's next message, at which the iterator is positioned. A
// message that had all its deliveries in earlier processes goes to the
// dead-letter queue.
func (l *lane) fresh(g *group, it *pebble.Iterator, now int64) (*message, []byte, error) {
	r, err := readRecord(it)
	if err != nil {
		return nil, nil, err
	}
	m := &message{position: g.next, receives: r.receives, sent: r.sent}
	m.timer.message = m
	if m.seq < l.queues.first && m.at <= l.queues.base.UnixMicro() { // the first delivery was not recorded
		m.receives = max(m.receives, 1)
	}
	l.held[m.seq] = m
	l.found = max(l.found, m.seq)
	g.next.seq++
	if l.spent(m.receives) {
		if err := l.bury(m); err != nil {
			return nil, nil, err
		}
		return l.nextOf(g, it, now)
	}
	_, err = l.findNext(g, it)
	return m, r.body, err
}

func readRecord(it *pebble.Iterator) (record, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return record{}, err
	}
	return parseRecord(value)
}

// undo reverts deliveries that could not be returned: they do not count, and
// the messages are ready again.
func (l *lane) undo(got []taken) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeue(got, l.queues.now())
	l.wake()
}

func (l *lane) requeue(got []taken, now int64) {
	for _, t := range got {
		m := l.held[t.seq]
		if m != nil && m.timer.set() && m.receives == t.receives {
			l.release(m)
			m.receives--
			l.makeReady(m, now, now)
		}
	}
}
