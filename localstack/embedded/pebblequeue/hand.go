package pebblequeue

import (
	"context"
	"slices"

	"millrace/localstack/embedded/share"
	"millrace/shared/platform/queue"
)

// hand passes the messages of a queue on as they are sent.
type hand struct {
	ctx   context.Context
	slots *share.Slots
	to    func(queue.Delivery)
}

// Hand calls to with a message as soon as it is stored, in the goroutine that
// sends it, if nothing is in its way: the queue has no ready message, and its
// group may have one of the slots, which is then taken. It spares such a message
// the way through a waiting receiver, and the wait until it is durable: whatever
// its handler writes is durable after it, and whatever its handler reads from the
// store is durable when the read returns. So a crash undoes only the message
// itself, whose sender was not told that it is sent, and what was written with
// table.SyncLater to be durable with it. All other messages wait for
// [Queues.ReceiveShared] with the same slots, and so does a handed message that
// is delivered again. to must return soon. Hand ends with ctx; when stop has
// returned to is not called any more. A queue has one Hand at a time.
func (s *Queues) Hand(ctx context.Context, name string, slots *share.Slots, to func(queue.Delivery)) (stop func()) {
	l := s.lanes[name]
	if l == nil {
		return func() {}
	}
	set := func(h *hand) {
		l.handing.Lock()
		defer l.handing.Unlock()
		l.hand = h
	}
	set(&hand{ctx, slots, to})
	return func() { set(nil) }
}

// arrive registers messages that were just stored, and hands on those that have
// nothing in their way.
func (l *lane) arrive(positions []position, sent int64, msgs []queue.Message) {
	l.handing.RLock()
	defer l.handing.RUnlock()
	left := positions
	if h := l.hand; h != nil {
		left = nil
		for i, p := range positions {
			if h.ctx.Err() == nil && l.takeNew(p, sent, h.slots) {
				h.to(taken{p, record{1, sent, slices.Clone(msgs[i].Body)}}.delivery(l.name))
			} else {
				left = append(left, p)
			}
		}
	}
	if len(left) > 0 {
		l.add(left...)
	}
}

// takeNew marks a message that was just stored as delivered, without reading it,
// if it is the only ready message of the queue and gets a slot.
func (l *lane) takeNew(p position, sent int64, slots *share.Slots) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.queues.now()
	l.promote(now)
	g := l.group(p.group)
	// A receiver may have found it in the store already, and even be done with it.
	if p.seq <= l.found { //guard:queue/handed-once false
		return false
	}
	if l.turns.n > 0 || l.closed || !g.empty || p.at > now || !slots.Try(p.group) {
		return false
	}
	m := &message{position: p, receives: 1, sent: sent}
	m.timer.message = m
	l.held[p.seq] = m
	l.hold(m, now)
	l.queue(g, now)
	l.arm(now)
	return true
}
