package sqlqueue

import (
	"slices"
	"sync"
	"time"

	"millrace/shared/queue"
)

// state is where a message is.
type state uint8

const (
	ready    state = iota // in its group's list
	delayed               // in the heap, never delivered since it was sent
	inFlight              // in the heap, delivered
	gone                  // deleted; skipped where a list still has it
)

// message is a message kept. Its lane's lock guards it.
type message struct {
	seq      int64
	sent     int64         // Unix milliseconds
	due      time.Duration // when delayed or inFlight ends, since Queues.base
	body     []byte        // nil if it is on disk alone
	group    string
	place    int // in the heap
	receives int32
	state    state
}

// group is the ready messages of one group of a lane.
type group struct {
	name   string
	ready  fifo[*message]
	queued bool // in the lane's turns
}

// keepGroups is how many groups without ready messages a lane remembers.
const keepGroups = 1024

// lane is one queue's messages in memory. Groups with ready messages stand in
// line: a delivery takes the oldest-ready message of the first group, which
// then goes to the end of the line. So each of n groups gets an n-th of the
// deliveries, whatever the others' backlog.
type lane struct {
	name       string
	visibility time.Duration
	dead       *lane // nil for a dead-letter queue
	now        func() time.Duration
	moved      func(seq int64, to string) // told of each move to dead

	mu      sync.Mutex // a lane's before its dead lane's
	byID    map[int64]*message
	groups  map[string]*group
	turns   fifo[*group]
	timed   dueHeap
	counts  [gone]int // messages by state
	waiters []chan struct{}
	timer   *time.Timer
	alarm   time.Duration // when timer fires; 0 if it is not set
	closed  bool
}

// add takes up messages that are on disk.
func (l *lane) add(msgs ...*message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, m := range msgs {
		l.byID[m.seq] = m
		switch {
		case m.due > now:
			l.schedule(m, delayed, m.due)
		case l.spent(m):
			l.bury(m)
		default:
			l.show(m)
		}
	}
	l.arm(now)
	l.wake()
}

// show puts a message that is in no list to the ready ones.
func (l *lane) show(m *message) {
	g := l.groups[m.group]
	if g == nil {
		g = &group{name: m.group}
		l.groups[m.group] = g
	}
	m.group = g.name // one copy of the name for all
	m.state = ready
	l.counts[ready]++
	g.ready.push(m)
	if !g.queued {
		g.queued = true
		l.turns.push(g)
	}
}

func (l *lane) schedule(m *message, s state, due time.Duration) {
	m.state, m.due = s, due
	l.counts[s]++
	l.timed.push(m)
}

// unschedule takes a message out of the heap and leaves it in no list.
func (l *lane) unschedule(m *message) {
	l.timed.remove(m)
	l.counts[m.state]--
}

// spent says whether a message has had all its deliveries.
func (l *lane) spent(m *message) bool {
	return l.dead != nil && m.receives >= queue.MaxReceives
}

// bury moves a message that is in no list to the dead-letter queue.
func (l *lane) bury(m *message) {
	delete(l.byID, m.seq)
	m.receives, m.due = 0, 0
	l.moved(m.seq, l.dead.name)
	l.dead.add(m)
}

// promote shows what has become due.
func (l *lane) promote(now time.Duration) {
	for len(l.timed) > 0 && l.timed[0].due <= now {
		m := l.timed[0]
		l.unschedule(m)
		if l.spent(m) {
			l.bury(m)
		} else {
			l.show(m)
		}
	}
}

// next removes and returns the ready message whose turn it is, nil if none is.
func (l *lane) next() *message {
	for l.counts[ready] > 0 {
		g := l.turns.pop()
		var m *message
		for g.ready.n > 0 && (m == nil || m.state == gone) {
			m = g.ready.pop()
		}
		if g.ready.n > 0 {
			l.turns.push(g)
		} else {
			g.queued = false
			if len(l.groups) > keepGroups {
				delete(l.groups, g.name)
			}
		}
		if m != nil && m.state == ready {
			l.counts[ready]--
			return m
		}
	}
	return nil
}

// take marks up to max ready messages as delivered and calls each with them,
// under the lock. If there is none and signal is not nil, signal is registered:
// it receives a value when there may be.
func (l *lane) take(max int, signal chan struct{}, each func(*message)) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, ErrClosed
	}
	now := l.now()
	l.promote(now)
	for ; n < max; n++ {
		m := l.next()
		if m == nil {
			break
		}
		m.receives++
		l.schedule(m, inFlight, now+l.visibility)
		each(m)
	}
	if n == 0 && signal != nil {
		l.waiters = append(l.waiters, signal)
	}
	l.arm(now)
	l.wake() // what is left is another's
	return n, nil
}

// wake tells the receiver that waits longest, if a message is ready. It wakes
// the next one if it leaves some.
func (l *lane) wake() {
	if l.counts[ready] > 0 && len(l.waiters) > 0 {
		l.waiters[0] <- struct{}{} // has room: a signal is sent once per registration
		l.waiters = slices.Delete(l.waiters, 0, 1)
	}
}

// leave ends a wait; a signal it may have had goes on to another.
func (l *lane) leave(signal chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiters, signal); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	l.wake()
}

// arm sets the timer to the first due time, if it is not set to an earlier one.
// A timer that fires early finds nothing due and is set again, which is cheaper
// than moving it at every delivery.
func (l *lane) arm(now time.Duration) {
	if len(l.timed) == 0 || l.closed {
		return
	}
	due := l.timed[0].due
	if l.alarm != 0 && l.alarm <= due {
		return
	}
	l.alarm = due
	if l.timer == nil {
		l.timer = time.AfterFunc(due-now, l.ring)
	} else {
		l.timer.Reset(due - now)
	}
}

func (l *lane) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.alarm = 0
	now := l.now()
	l.promote(now)
	l.arm(now)
	l.wake()
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	for _, signal := range l.waiters {
		signal <- struct{}{}
	}
	l.waiters = nil
}
