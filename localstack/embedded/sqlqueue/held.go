package sqlqueue

import (
	"fmt"
	"time"

	"millrace/shared/queue"
)

// remove forgets the messages of receipts and calls each with those that were
// kept, under the lock. As on SQS a receipt serves to delete even when its
// message has been delivered again: its work is done.
func (l *lane) remove(receipts []string, each func(*message)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	var bad error
	for _, receipt := range receipts {
		seq, _, ok := parseReceipt(l.name, receipt)
		if !ok {
			bad = fmt.Errorf("%w: %q is not of queue %s", queue.ErrReceipt, receipt, l.name)
			continue
		}
		m := l.byID[seq]
		if m == nil {
			continue
		}
		if m.state == ready {
			l.counts[ready]--
		} else {
			l.unschedule(m)
		}
		m.state = gone
		delete(l.byID, seq)
		each(m)
	}
	return bad
}

// extend makes deliveries invisible for d from now.
func (l *lane) extend(d time.Duration, receipts []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := l.now()
	l.promote(now) // what has run out is no longer held
	var bad error
	for _, receipt := range receipts {
		seq, receives, ok := parseReceipt(l.name, receipt)
		m := l.byID[seq]
		if !ok || m == nil || m.state != inFlight || m.receives != receives {
			bad = fmt.Errorf("%w: %q", queue.ErrReceipt, receipt)
			continue
		}
		m.due = now + d
		l.timed.fix(m)
	}
	l.promote(now) // at once for a d of 0
	l.arm(now)
	l.wake()
	return bad
}

// undo takes deliveries back that could not be handed out: they count for
// nothing and are ready again.
func (l *lane) undo(ds []queue.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range ds {
		seq, receives, _ := parseReceipt(l.name, d.Receipt)
		if m := l.byID[seq]; m != nil && m.state == inFlight && m.receives == receives {
			l.unschedule(m)
			m.receives--
			l.show(m)
		}
	}
	l.wake()
}

func (l *lane) stats(wall time.Time) queue.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.promote(now)
	l.arm(now)
	l.wake()
	s := queue.Stats{Visible: l.counts[ready], InFlight: l.counts[inFlight], Delayed: l.counts[delayed]}
	if s.Visible == 0 {
		return s
	}
	oldest := wall.UnixMilli()
	for g := range l.turns.all {
		for m := range g.ready.all {
			if m.state == ready {
				oldest = min(oldest, m.sent)
			}
		}
	}
	s.Oldest = wall.Sub(time.UnixMilli(oldest))
	return s
}
