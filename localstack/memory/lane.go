package memory

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/shared/queue"
)

// message is a message of a lane: delayed or in flight while it stands in
// later, else ready in its group.
type message struct {
	id       string
	body     []byte
	group    string
	sent     time.Time
	due      time.Time // when it is visible
	receives int
	held     bool // in flight
	at       int  // its place in later, -1 for none
}

// lane is one queue.
type lane struct {
	name       string
	visibility time.Duration
	dead       *lane // nil for a dead-letter queue
	all        map[string]*message
	later      later
	ready      map[string][]*message // by group
	turns      []string              // groups with ready messages
	changed    chan struct{}         // closed when something became ready
}

func newLane(name string, visibility time.Duration, dead *lane) *lane {
	return &lane{
		name: name, visibility: visibility, dead: dead,
		all: map[string]*message{}, ready: map[string][]*message{}, changed: make(chan struct{}),
	}
}

func (l *lane) add(m *message, now time.Time) {
	l.all[m.id] = m
	if m.due.After(now) {
		l.delay(m, m.due)
	} else {
		l.show(m)
	}
	// Also for one that is not ready yet: receivers wait for the next that is due.
	close(l.changed)
	l.changed = make(chan struct{})
}

// show makes a message ready.
func (l *lane) show(m *message) {
	m.held = false
	if len(l.ready[m.group]) == 0 {
		l.turns = append(l.turns, m.group)
	}
	l.ready[m.group] = append(l.ready[m.group], m)
}

// delay hides a message that is not ready until a time.
func (l *lane) delay(m *message, until time.Time) {
	m.due = until
	if m.at < 0 {
		heap.Push(&l.later, m)
	} else {
		heap.Fix(&l.later, m.at)
	}
}

// promote shows what has become visible. What was delivered too often goes to
// the dead-letter queue.
func (l *lane) promote(now time.Time) {
	shown := false
	for len(l.later) > 0 && !l.later[0].due.After(now) {
		m := heap.Pop(&l.later).(*message)
		shown = true
		if l.dead == nil || m.receives < queue.MaxReceives {
			l.show(m)
			continue
		}
		delete(l.all, m.id)
		m.receives, m.held = 0, false
		l.dead.add(m, now)
	}
	if shown {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// take delivers up to limit messages, one of each group in turn.
func (l *lane) take(limit int, now time.Time) []queue.Delivery {
	var out []queue.Delivery
	for len(out) < limit && len(l.turns) > 0 {
		group := l.turns[0]
		m := l.ready[group][0]
		l.unready(m)
		if len(l.ready[group]) > 0 {
			l.turns = append(slices.DeleteFunc(l.turns, func(g string) bool { return g == group }), group)
		}
		m.receives++
		m.held = true
		l.delay(m, now.Add(l.visibility))
		out = append(out, queue.Delivery{
			ID: m.id, Receipt: fmt.Sprintf("%s.%d", m.id, m.receives), Body: m.body, Group: m.group,
			Receives: m.receives, Sent: m.sent,
		})
	}
	return out
}

// unready takes a message out of its group.
func (l *lane) unready(m *message) {
	left := slices.DeleteFunc(l.ready[m.group], func(o *message) bool { return o == m })
	l.ready[m.group] = left
	if len(left) == 0 {
		delete(l.ready, m.group)
		l.turns = slices.DeleteFunc(l.turns, func(g string) bool { return g == m.group })
	}
}

func (l *lane) remove(id string) {
	m := l.all[id]
	switch {
	case m == nil:
		return
	case m.at >= 0:
		heap.Remove(&l.later, m.at)
	default:
		l.unready(m)
	}
	delete(l.all, id)
}

// next is when to look again, at the latest.
func (l *lane) next(latest time.Time) time.Time {
	if len(l.later) > 0 && l.later[0].due.Before(latest) {
		return l.later[0].due
	}
	return latest
}

func (l *lane) stats(now time.Time) queue.Stats {
	s := queue.Stats{}
	for _, m := range l.all {
		switch {
		case m.at < 0:
			s.Visible++
			s.Oldest = max(s.Oldest, now.Sub(m.sent))
		case m.held:
			s.InFlight++
		default:
			s.Delayed++
		}
	}
	return s
}

// parseReceipt reads "id.receives"; false if it is none.
func parseReceipt(receipt string) (id string, receives int, ok bool) {
	id, count, found := strings.Cut(receipt, ".")
	receives, err := strconv.Atoi(count)
	return id, receives, found && err == nil
}

// later is a heap of messages by the time they become visible.
type later []*message

// Len is the number of messages.
func (h later) Len() int { return len(h) }

// Less orders by time.
func (h later) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

// Swap swaps two.
func (h later) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push adds a message at the end.
func (h *later) Push(x any) {
	m := x.(*message)
	m.at = len(*h)
	*h = append(*h, m)
}

// Pop takes the last.
func (h *later) Pop() any {
	old := *h
	m := old[len(old)-1]
	*h = old[:len(old)-1]
	m.at = -1
	return m
}
