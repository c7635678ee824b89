// Package pebblequeue is the queue driver on the embedded server's store. On an
// in-memory store it provides the queues of tests and simulations.
//
// A message is one key of the store from Send to Delete, ordered by queue,
// group and the time from which it is visible. A queue keeps in memory only the
// position of each group's next message, and the messages that are delivered
// and not deleted, so neither a long backlog nor deleted messages cost
// anything.
//
// Every message that Send acknowledged survives the death of the process, until
// its Delete. A delete reaches the disk a moment later and may be lost, in
// which case the message is delivered again. Time-outs are in memory: messages
// in flight are ready again after a restart. A first delivery is not recorded.
// Instead, a message left over from an earlier process counts one delivery, and
// each later delivery is recorded before the message is returned. A message
// that kills its process therefore reaches the dead-letter queue after
// MaxReceives deliveries as usual, while a backlog that is never delivered does
// not age with restarts.
//
// Groups take turns: see [queue.Queues.Receive]. Within a group messages are
// mostly delivered in the order in which they became ready.
package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"millrace/localstack/embedded/share"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
)

// ErrClosed means that the queues have been closed.
var ErrClosed = errors.New("pebblequeue: closed")

// Queues are the embedded server's queues.
type Queues struct {
	db     *store.DB
	clock  clock.Clock
	base   time.Time
	lanes  map[string]*lane
	closed atomic.Bool

	watch   func(DeadLetter)
	telling sync.WaitGroup

	// Accessed only within commits: the next message number, and the first number
	// that is not reserved in the store.
	seq, reserved int64
	first         int64 // first number of this process; smaller ones are of earlier processes
}

var _ queue.Queues = (*Queues)(nil)

// New opens the queues of defs and their dead-letter queues in db, with their
// stored messages. Messages of a queue that is no longer defined stay in the
// store until it is defined again. The caller closes the queues before the
// store.
func New(ctx context.Context, db *store.DB, now clock.Clock, defs []queue.Definition) (*Queues, error) {
	s := &Queues{db: db, clock: now, base: now.Now(), lanes: make(map[string]*lane, 2*len(defs))}
	for _, def := range defs {
		if err := def.Check(); err != nil {
			return nil, err
		}
		if s.lanes[def.Name] != nil {
			return nil, fmt.Errorf("pebblequeue: queue %s is defined twice", def.Name)
		}
		dead := s.newLane(queue.Dead(def.Name), def.Visibility, nil)
		s.newLane(def.Name, def.Visibility, dead)
	}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("pebblequeue: load: %w", err)
	}
	return s, nil
}

func (s *Queues) newLane(name string, visibility time.Duration, dead *lane) *lane {
	l := &lane{
		name: name, visibility: visibility, dead: dead, queues: s, prefix: lanePrefix(name),
		held: make(map[int64]*message), groups: make(map[string]*group),
	}
	s.lanes[name] = l
	return l
}

// now returns the time in Unix microseconds: the clock's at the start plus the
// elapsed time, so that a change of the system clock does not affect time-outs.
func (s *Queues) now() int64 {
	return s.base.UnixMicro() + s.clock.Now().Sub(s.base).Microseconds()
}

func (s *Queues) lane(ctx context.Context, name string) (*lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := s.lanes[name]
	if l == nil {
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownQueue, name)
	}
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return l, nil
}

// Send sends all messages or none, in one commit.
func (s *Queues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	l, err := s.lane(ctx, name)
	if err != nil || len(msgs) == 0 {
		return err
	}
	for i := range msgs {
		if err := msgs[i].Check(); err != nil {
			return err
		}
	}
	now, sent := s.now(), s.clock.Now().UnixMilli()
	positions := make([]position, len(msgs))
	err = s.db.CommitThen(ctx, func(b *store.Batch) error {
		for i, m := range msgs {
			seq, err := s.number(b)
			if err != nil {
				return err
			}
			positions[i] = position{group: m.Group, at: now + m.Delay.Microseconds(), seq: seq}
			if err := b.Set(positions[i].key(l.prefix), record{sent: sent, body: m.Body}.encode()); err != nil {
				return err
			}
		}
		return l.count(b, len(msgs))
	}, func() { l.arrive(positions, sent, msgs) })
	if err != nil {
		return fmt.Errorf("pebblequeue: send to %s: %w", name, err)
	}
	return nil
}

// Receive takes messages from the groups in turn. Receivers wait for a signal,
// first come, first served.
func (s *Queues) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	return s.receive(ctx, name, max, wait, nil)
}

// ReceiveShared is Receive for a caller with a limited number of slots, one
// for each message: it takes a slot of the message's group for each message it
// returns. Among the groups with ready messages, the one that holds the fewest
// slots is first. Messages of a group that may not have a slot stay in the
// queue without delaying others. Only one caller at a time may receive from a
// queue in this way, and with these slots.
func (s *Queues) ReceiveShared(ctx context.Context, name string, max int, wait time.Duration, slots *share.Slots) ([]queue.Delivery, error) {
	return s.receive(ctx, name, max, wait, slots)
}

func (s *Queues) receive(ctx context.Context, name string, max int, wait time.Duration, slots *share.Slots) ([]queue.Delivery, error) {
	l, err := s.lane(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := queue.CheckReceive(max, wait); err != nil {
		return nil, err
	}
	if got, err := l.take(max, slots, nil); len(got) > 0 || err != nil || wait == 0 {
		return s.deliver(ctx, l, slots, got, err)
	}
	var changed <-chan struct{}
	if slots != nil {
		changed = slots.Changed()
	}
	signal := make(chan struct{}, 1)
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		if got, err := l.take(max, slots, signal); len(got) > 0 || err != nil {
			return s.deliver(ctx, l, slots, got, err)
		}
		select {
		case <-signal:
		case <-changed:
			l.leave(signal)
			select {
			case <-signal:
			default:
			}
		case <-timeout.C:
			l.leave(signal)
			return nil, nil
		case <-ctx.Done():
			l.leave(signal)
			return nil, ctx.Err()
		}
	}
}

// deliver completes a receive: it records all deliveries but a message's first.
// If it fails, the messages are ready again and their slots free.
func (s *Queues) deliver(ctx context.Context, l *lane, slots *share.Slots, got []taken, err error) ([]queue.Delivery, error) {
	if err != nil || len(got) == 0 {
		return nil, err
	}
	again := false
	out := make([]queue.Delivery, len(got))
	for i, t := range got {
		again = again || t.receives > 1
		out[i] = t.delivery(l.name)
	}
	if !again {
		s.db.Wait()
		return out, nil
	}
	// Not bounded by ctx, because the messages are already taken, nor by the
	// disk's free space, because the write replaces an equally large one.
	ctx = table.Reclaiming(context.WithoutCancel(ctx))
	if err := s.db.Commit(ctx, func(b *store.Batch) error { return writeReceives(b, l, got) }); err != nil {
		l.undo(got)
		vacate(slots, got)
		return nil, fmt.Errorf("pebblequeue: receive from %s: %w", l.name, err)
	}
	return out, nil
}

// writeReceives records the number of deliveries of messages delivered again.
// Messages deleted meanwhile by an earlier receipt are skipped.
func writeReceives(b *store.Batch, l *lane, got []taken) error {
	for _, t := range got {
		if t.receives < 2 {
			continue
		}
		key := t.key(l.prefix)
		_, found, err := b.Get(key)
		if err == nil && found {
			err = b.Set(key, t.encode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete accepts any receipt of a message. The package documentation describes
// when a delete reaches the disk.
func (s *Queues) Delete(ctx context.Context, name string, receipts ...string) error {
	l, err := s.lane(ctx, name)
	if err != nil || len(receipts) == 0 {
		return err
	}
	positions, bad := l.remove(receipts)
	if len(positions) == 0 {
		return bad
	}
	if _, err := l.discard(ctx, positions); err != nil {
		return fmt.Errorf("pebblequeue: delete from %s: %w", name, err)
	}
	return bad
}

// Extend changes the deliveries that are held even if others are not.
func (s *Queues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	l, err := s.lane(ctx, name)
	if err != nil {
		return err
	}
	if err := queue.CheckExtend(d); err != nil {
		return err
	}
	return l.extend(d, receipts)
}

// Depth returns an exact count in constant time.
func (s *Queues) Depth(ctx context.Context, name string) (int, error) {
	l, err := s.lane(ctx, name)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(s.now())
	return l.visible(), nil
}

// Stats returns exact counts in time proportional to the number of groups.
func (s *Queues) Stats(ctx context.Context, name string) (queue.Stats, error) {
	l, err := s.lane(ctx, name)
	if err != nil {
		return queue.Stats{}, err
	}
	stats, err := l.stats()
	s.db.Wait()
	return stats, err
}

// Close ends waiting receivers with ErrClosed and waits for [Queues.Watch].
// Later calls fail with ErrClosed.
func (s *Queues) Close() error {
	s.closed.Store(true)
	for _, l := range s.lanes {
		l.close()
	}
	s.telling.Wait()
	return nil
}
