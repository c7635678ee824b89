package pebblequeue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/queue"
)

// message is a message that this process has delivered and that is not deleted.
// The lane's lock guards it.
type message struct {
	position
	receives int
	sent     int64 // Unix milliseconds
	timer    timer // time-out, set while it is in flight
	ready    int64 // Unix microseconds since which it is ready again
	deleting bool  // a deletion is in progress
}

// group is the state of one message group of a lane.
type group struct {
	name   string
	queued bool // in the lane's turns
	// next is at or before the first stored message that this process has not
	// delivered; empty if there is none.
	next  position
	empty bool
	timer timer          // set until next is visible
	back  fifo[*message] // delivered before and ready again
}

// keepGroups is the number of empty groups that a lane remembers.
const keepGroups = 1024

// lane is one queue. Groups with ready messages form a line: a delivery takes a
// message of the first group, which then moves to the end. Each of n groups
// therefore gets 1/n of the deliveries, whatever the others' backlog.
type lane struct {
	name       string
	visibility time.Duration
	dead       *lane // nil for a dead-letter queue
	queues     *Queues
	prefix     []byte       // of the keys of its messages
	total      atomic.Int64 // messages in the store; modified only within commits

	handing sync.RWMutex // locked before mu
	hand    *hand        // nil: none

	mu       sync.Mutex // lock order: a lane, its dead lane, a commit
	held     map[int64]*message
	found    int64 // largest number of the messages that receivers found in the store
	inFlight int   // number of held messages in flight
	groups   map[string]*group
	turns    fifo[*group]
	timed    timers
	delayed  moments
	waiters  []chan struct{}
	alarm    *time.Timer
	alarmAt  int64 // Unix microseconds when alarm fires; 0 if it is not set
	closed   bool
}

func (l *lane) groupPrefix(group string) []byte {
	return store.AppendPart(slices.Clone(l.prefix), group)
}

func (l *lane) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{name: name, empty: true}
		g.timer.group = g
		l.groups[name] = g
	}
	return g
}

// add registers messages in the store.
func (l *lane) add(positions ...position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.queues.now()
	for _, p := range positions {
		g := l.group(p.group)
		if p.at > now {
			l.delayed.push(p.at)
		}
		if g.empty || p.before(g.next) {
			g.empty, g.next = false, p
		}
		l.queue(g, now)
	}
	l.arm(now)
	l.wake()
}

// queue puts a group in line, or waits until its next message is visible.
func (l *lane) queue(g *group, now int64) {
	switch {
	case g.queued:
	case g.back.n > 0 || !g.empty && g.next.at <= now:
		l.timed.stop(&g.timer)
		g.queued = true
		l.turns.push(g)
	case !g.empty:
		l.timed.set(&g.timer, g.next.at)
	case len(l.groups) > keepGroups:
		delete(l.groups, g.name)
	}
}

// makeReady makes a held message ready again, as of since.
func (l *lane) makeReady(m *message, since, now int64) {
	m.ready = since
	g := l.group(m.group)
	g.back.push(m)
	l.queue(g, now)
}

// hold marks a message as delivered until its time-out.
func (l *lane) hold(m *message, now int64) {
	l.inFlight++
	l.timed.set(&m.timer, now+l.visibility.Microseconds())
}

// release ends a delivery.
func (l *lane) release(m *message) {
	if l.timed.stop(&m.timer) {
		l.inFlight--
	}
}

// promote processes due timers: a group's next message becomes visible, or a
// delivery times out.
func (l *lane) promote(now int64) {
	l.delayed.pass(now)
	for len(l.timed) > 0 && l.timed[0].due <= now {
		due := l.timed[0]
		if due.group != nil {
			l.timed.stop(due)
			l.queue(due.group, now)
			continue
		}
		l.release(due.message)
		if l.spent(due.message.receives) && l.bury(due.message) == nil {
			continue // if it fails, the store is closed
		}
		l.makeReady(due.message, due.due, now)
	}
}

// spent reports whether a message has had all its deliveries.
func (l *lane) spent(receives int) bool { return l.dead != nil && receives >= queue.MaxReceives }

// wake signals the longest waiting receiver if a group is ready. That receiver
// wakes the next one if messages remain.
func (l *lane) wake() {
	if l.turns.n > 0 && len(l.waiters) > 0 {
		l.waiters[0] <- struct{}{} // has capacity: there is one signal per registration
		l.waiters = slices.Delete(l.waiters, 0, 1)
	}
}

// leave ends a wait and passes on a signal that arrived meanwhile.
func (l *lane) leave(signal chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiters, signal); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	l.wake()
}

// arm sets the alarm to the first due time, unless it is set to an earlier one.
// An early alarm finds nothing due and is set again, which is cheaper than
// resetting it on every delivery.
func (l *lane) arm(now int64) {
	if len(l.timed) == 0 || l.closed {
		return
	}
	due := l.timed[0].due
	if l.alarmAt != 0 && l.alarmAt <= due {
		return
	}
	l.alarmAt = due
	after := time.Duration(due-now) * time.Microsecond
	if l.alarm == nil {
		l.alarm = time.AfterFunc(after, l.ring)
	} else {
		l.alarm.Reset(after)
	}
}

func (l *lane) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.alarmAt = 0
	now := l.queues.now()
	l.promote(now)
	l.arm(now)
	l.wake()
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.alarm != nil {
		l.alarm.Stop()
	}
	for _, signal := range l.waiters {
		signal <- struct{}{}
	}
	l.waiters = nil
}
