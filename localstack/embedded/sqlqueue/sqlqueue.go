// Package sqlqueue is the embedded driver of the port package queue: the
// messages are in the server's one SQLite file and, but for the bodies of a
// long backlog, in memory as well, so that Receive reads no disk.
//
// Changes go to the store's journal, and a moment later into the table; what was
// sent and deleted meanwhile never gets there.
//
// What survives the death of the process: every message that Send
// acknowledged, until its Delete. A delete is written with the next group of
// commits and may be lost, so the message may be delivered again. Time-outs live
// in memory: what was in flight is ready again at the next start. A first
// delivery is not written down; instead a message that is left over from an
// earlier process counts one delivery, and each later delivery is on disk
// before it is handed out. So a message whose deliveries kill the process
// reaches the dead-letter queue after MaxReceives of them all the same, while a
// backlog that is never delivered does not age with restarts.
//
// Groups share a queue by turns: see [queue.Queues.Receive]. Within a group
// messages come in the order in which they became ready, most of the time.
package sqlqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/queue"
)

// ErrClosed: the queues have been closed.
var ErrClosed = errors.New("sqlqueue: closed")

// bodyBudget is how many bytes of bodies are kept in memory, over all queues;
// those beyond it are read from disk when they are received.
const bodyBudget = 32 << 20

// Queues are the embedded server's queues.
type Queues struct {
	db     *store.DB
	log    *store.Owner
	clock  clock.Clock
	base   time.Time // deadlines are kept as the time since
	lanes  map[string]*lane
	seq    atomic.Int64 // the last message's number
	budget int64
	bodies atomic.Int64 // bytes of bodies in memory
	closed atomic.Bool

	unfolded unfolded

	mu    sync.Mutex
	later *later // the changes that wait for the next group, nil for none
}

var _ queue.Queues = (*Queues)(nil)

// New opens the queues of defs and their dead-letter queues in db, with the
// messages they had. Messages of a queue that is no longer defined stay on disk
// until it is again. The caller closes the queues before the store.
func New(ctx context.Context, db *store.DB, now clock.Clock, defs []queue.Definition) (*Queues, error) {
	s := &Queues{db: db, clock: now, base: now.Now(), lanes: make(map[string]*lane, 2*len(defs)), budget: bodyBudget}
	for _, def := range defs {
		if err := def.Check(); err != nil {
			return nil, err
		}
		if s.lanes[def.Name] != nil {
			return nil, fmt.Errorf("sqlqueue: queue %s is defined twice", def.Name)
		}
		dead := s.newLane(queue.Dead(def.Name), def.Visibility, nil)
		s.newLane(def.Name, def.Visibility, dead)
	}
	var err error
	if s.log, err = db.Attach("queue", s, replay, schema); err != nil {
		return nil, fmt.Errorf("sqlqueue: %w", err)
	}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("sqlqueue: load messages: %w", err)
	}
	return s, nil
}

func (s *Queues) newLane(name string, visibility time.Duration, dead *lane) *lane {
	l := &lane{
		name: name, visibility: visibility, dead: dead,
		now: s.now, moved: s.moved,
		byID: make(map[int64]*message), groups: make(map[string]*group),
	}
	s.lanes[name] = l
	return l
}

func (s *Queues) now() time.Duration { return s.clock.Now().Sub(s.base) }

func (s *Queues) lane(ctx context.Context, name string) (*lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := s.lanes[name]
	if l == nil {
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownQueue, name)
	}
	return l, nil
}

// Send keeps all messages or none: they are one transaction. ctx is looked at
// before the write alone, so that nothing is kept that Receive does not know of.
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
	if s.closed.Load() {
		return ErrClosed
	}
	now := s.clock.Now()
	seq := s.seq.Add(int64(len(msgs))) - int64(len(msgs))
	kept := make([]*message, len(msgs))
	for i, msg := range msgs {
		seq++
		m := &message{seq: seq, sent: now.UnixMilli(), group: msg.Group}
		if msg.Delay > 0 {
			m.due = now.Sub(s.base) + msg.Delay
		}
		kept[i] = m
	}
	changes := make([]change, len(msgs))
	for i, m := range kept {
		changes[i] = change{
			kind: sent, seq: m.seq, queue: name, group: m.group, sent: m.sent,
			due: now.Add(msgs[i].Delay).UnixMilli(), body: bytes.Clone(msgs[i].Body),
		}
	}
	if err := s.commit(context.WithoutCancel(ctx), changes...); err != nil {
		return fmt.Errorf("sqlqueue: send to %s: %w", name, err)
	}
	for i, m := range kept {
		m.body = s.hold(changes[i].body)
	}
	l.add(kept...)
	return nil
}

// hold returns a body to keep in memory, nil if the budget is spent.
func (s *Queues) hold(body []byte) []byte {
	n := int64(len(body))
	if s.bodies.Add(n) > s.budget {
		s.bodies.Add(-n)
		return nil
	}
	return body
}

// Receive gives the groups with ready messages their turns. It waits by signal,
// first come, first served.
func (s *Queues) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	l, err := s.lane(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := queue.CheckReceive(max, wait); err != nil {
		return nil, err
	}
	b := batch{lane: l}
	if n, err := l.take(max, nil, b.add); n > 0 || err != nil || wait == 0 {
		return s.deliver(ctx, &b, err)
	}
	signal := make(chan struct{}, 1)
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		if n, err := l.take(max, signal, b.add); n > 0 || err != nil {
			return s.deliver(ctx, &b, err)
		}
		select {
		case <-signal:
		case <-timeout.C:
			l.leave(signal)
			return nil, nil
		case <-ctx.Done():
			l.leave(signal)
			return nil, ctx.Err()
		}
	}
}

// Delete accepts any receipt a message had: see the package comment for when a
// delete reaches the disk.
func (s *Queues) Delete(ctx context.Context, name string, receipts ...string) error {
	l, err := s.lane(ctx, name)
	if err != nil || len(receipts) == 0 {
		return err
	}
	var gone []change
	bad := l.remove(receipts, func(m *message) {
		gone = append(gone, change{kind: deleted, seq: m.seq})
		s.bodies.Add(-int64(len(m.body)))
		m.body = nil
	})
	if len(gone) == 0 {
		return bad
	}
	if err := s.change(gone...); err != nil {
		return fmt.Errorf("sqlqueue: delete from %s: %w", name, err)
	}
	return bad
}

// Extend changes those deliveries that are held, even if others are not.
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

// Stats counts exactly. Its time grows with the ready messages (Oldest).
func (s *Queues) Stats(ctx context.Context, name string) (queue.Stats, error) {
	l, err := s.lane(ctx, name)
	if err != nil {
		return queue.Stats{}, err
	}
	return l.stats(s.clock.Now()), nil
}

// Close ends waiting receivers with ErrClosed and writes what Delete has not
// yet. Later calls fail with ErrClosed.
func (s *Queues) Close() error {
	s.closed.Store(true)
	for _, l := range s.lanes {
		l.close()
	}
	err := s.commit(context.Background()) // takes along what waits
	if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrDetached) {
		return nil
	}
	return err
}
