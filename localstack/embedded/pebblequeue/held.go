package pebblequeue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/queue"
)

// remove ends the deliveries of receipts and returns the messages' positions. As
// on SQS, a receipt is valid for deletion even if its message has been
// delivered again. The caller deletes the messages and calls forget.
func (l *lane) remove(receipts []string) (positions []position, bad error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, receipt := range receipts {
		p, _, ok := parseReceipt(l.name, receipt)
		if !ok {
			bad = fmt.Errorf("%w: %q is not of queue %s", queue.ErrReceipt, receipt, l.name)
			continue
		}
		if m := l.held[p.seq]; m != nil {
			l.release(m)
			m.deleting = true
		}
		if !slices.Contains(positions, p) {
			positions = append(positions, p)
		}
	}
	return positions, bad
}

// forget drops deleted messages.
func (l *lane) forget(positions []position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range positions {
		if m := l.held[p.seq]; m != nil && m.deleting {
			delete(l.held, p.seq)
		}
	}
}

// extend makes deliveries invisible for d from now.
func (l *lane) extend(d time.Duration, receipts []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := l.queues.now()
	l.promote(now) // expired deliveries are no longer held
	var bad error
	for _, receipt := range receipts {
		p, receives, ok := parseReceipt(l.name, receipt)
		m := l.held[p.seq]
		if !ok || m == nil || !m.timer.set() || m.receives != receives {
			bad = fmt.Errorf("%w: %q", queue.ErrReceipt, receipt)
			continue
		}
		l.timed.set(&m.timer, now+d.Microseconds())
	}
	l.promote(now) // a d of 0 takes effect at once
	l.arm(now)
	l.wake()
	return bad
}

// settle processes everything that is due.
func (l *lane) settle(now int64) {
	l.promote(now)
	l.arm(now)
	l.wake()
}

// visible returns the number of messages that are neither in flight nor
// delayed.
func (l *lane) visible() int { return max(0, int(l.total.Load())-l.inFlight-len(l.delayed)) }

// stats returns the queue's statistics.
func (l *lane) stats() (s queue.Stats, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.queues.now()
	l.settle(now)
	oldest := now
	for _, g := range l.groups {
		for m := range g.back.all {
			if !m.deleting {
				oldest = min(oldest, m.sent*1000)
			}
		}
		if g.empty {
			continue
		}
		first, err := l.firstSent(g, now)
		if err != nil {
			return s, err
		}
		oldest = min(oldest, first)
	}
	s.InFlight, s.Delayed, s.Visible = l.inFlight, len(l.delayed), l.visible()
	if s.Visible > 0 {
		s.Oldest = time.Duration(now-oldest) * time.Microsecond
	}
	return s, nil
}

// firstSent returns when a group's first visible message was sent, in Unix
// microseconds; now if there is none.
func (l *lane) firstSent(g *group, now int64) (first int64, err error) {
	// Scan would wait for senders, who wait for l.mu.
	it, err := l.queues.db.Iterator(g.next.key(l.prefix), store.After(l.groupPrefix(g.name)))
	if err != nil {
		return 0, err
	}
	defer func() { err = l.queues.db.Unreadable(errors.Join(err, it.Close())) }()
	for ok := it.First(); ok; ok = it.Next() {
		p, err := parsePosition(it.Key()[len(l.prefix):])
		if err != nil || p.at > now {
			return now, err
		}
		if l.held[p.seq] != nil {
			continue
		}
		r, err := readRecord(it)
		return r.sent * 1000, err
	}
	return now, nil
}
