package pebblequeue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/platform/queue"
)

// message is a message delivered by this process and not deleted. Its lane's
// lock guards it.
type message struct {
	place
	receives int
	sent     int64 // Unix milliseconds
	timer    timer // set while it is in flight, until its time-out
	ready    int64 // Unix microseconds since when it is ready again
	gone     bool  // being deleted
}

// group is the messages of one group of a lane.
type group struct {
	name   string
	queued bool // in the lane's turns
	// The first message in the store that this process has not delivered is at
	// next or behind it; empty if there is none.
	next  place
	empty bool
	timer timer          // set until next is visible
	back  fifo[*message] // delivered and ready again
}

// keepGroups is how many groups without messages a lane remembers.
const keepGroups = 1024

// lane is one queue. Groups with ready messages stand in line: a delivery takes
// a message of the first group, which then goes to the end of the line. So each
// of n groups gets an n-th of the deliveries, whatever the others' backlog.
type lane struct {
	name       string
	visibility time.Duration
	dead       *lane // nil for a dead-letter queue
	queues     *Queues
	prefix     []byte       // of its messages' keys
	total      atomic.Int64 // messages in the store; changed within commits

	mu       sync.Mutex // a lane's before its dead lane's, and before a commit
	held     map[int64]*message
	inFlight int // of held
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

// add takes note of messages in the store.
func (l *lane) add(places ...place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.queues.now()
	for _, p := range places {
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

// queue has a group wait for its turn, or for the time of its next message.
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

// giveBack makes a held message ready again, as it is since a time.
func (l *lane) giveBack(m *message, since, now int64) {
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

// promote acts on what has become due: a group's next message is visible, a
// delivery's time is out.
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
			continue // if it failed, the store is closed
		}
		l.giveBack(due.message, due.due, now)
	}
}

// spent says whether a message has had all its deliveries.
func (l *lane) spent(receives int) bool { return l.dead != nil && receives >= queue.MaxReceives }

// wake tells the receiver that waits longest, if a group is ready. It wakes the
// next one if it leaves some.
func (l *lane) wake() {
	if l.turns.n > 0 && len(l.waiters) > 0 {
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

// arm sets the alarm to the first due time, if it is not set to an earlier one.
// An alarm that rings early finds nothing due and is set again, which is cheaper
// than moving it at every delivery.
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
