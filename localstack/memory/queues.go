package memory

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"millrace/shared/clock"
	"millrace/shared/queue"
)

// Queues is the queue port's driver. Groups take turns; within a group
// messages come in the order in which they became ready.
type Queues struct {
	clock clock.Clock
	lanes map[string]*lane

	mu  sync.Mutex // over all lanes: a simulation has few receivers
	seq int64
}

var _ queue.Queues = (*Queues)(nil)

// NewQueues makes empty queues and their dead-letter queues. It panics on a
// definition that no driver takes, a mistake of the program.
func NewQueues(now clock.Clock, defs []queue.Definition) *Queues {
	q := &Queues{clock: now, lanes: make(map[string]*lane, 2*len(defs))}
	for _, d := range defs {
		if err := d.Check(); err != nil {
			panic(err)
		}
		dead := newLane(queue.Dead(d.Name), d.Visibility, nil)
		q.lanes[dead.name], q.lanes[d.Name] = dead, newLane(d.Name, d.Visibility, dead)
	}
	return q
}

// enter locks and returns a queue; the caller unlocks q.mu unless it gets an error.
func (q *Queues) enter(ctx context.Context, name string) (*lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := q.lanes[name]
	if l == nil {
		return nil, fmt.Errorf("%w: %s", queue.ErrUnknownQueue, name)
	}
	q.mu.Lock()
	l.promote(q.clock.Now())
	return l, nil
}

// Send keeps all messages or none.
func (q *Queues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	for i := range msgs {
		if err := msgs[i].Check(); err != nil {
			return err
		}
	}
	l, err := q.enter(ctx, name)
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	now := q.clock.Now()
	for _, m := range msgs {
		q.seq++
		l.add(&message{
			id: strconv.FormatInt(q.seq, 10), body: append([]byte(nil), m.Body...), group: m.Group,
			sent: now, due: now.Add(m.Delay), at: -1,
		}, now)
	}
	return nil
}

// Receive gives the groups with ready messages their turns.
func (q *Queues) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	if err := queue.CheckReceive(max, wait); err != nil {
		return nil, err
	}
	until := q.clock.Now().Add(wait)
	for {
		l, err := q.enter(ctx, name)
		if err != nil {
			return nil, err
		}
		now := q.clock.Now()
		got := l.take(max, now)
		changed, next := l.changed, l.next(until)
		q.mu.Unlock()
		if len(got) > 0 || !now.Before(until) {
			return got, nil
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Delete accepts any receipt a message had.
func (q *Queues) Delete(ctx context.Context, name string, receipts ...string) error {
	l, err := q.enter(ctx, name)
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	var bad error
	for _, r := range receipts {
		id, _, ok := parseReceipt(r)
		if !ok {
			bad = fmt.Errorf("%w: %q", queue.ErrReceipt, r)
			continue
		}
		l.remove(id)
	}
	return bad
}

// Extend changes those deliveries that are held, even if others are not.
func (q *Queues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	if err := queue.CheckExtend(d); err != nil {
		return err
	}
	l, err := q.enter(ctx, name)
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	now := q.clock.Now()
	var bad error
	for _, r := range receipts {
		id, receives, ok := parseReceipt(r)
		if m := l.all[id]; !ok || m == nil || !m.held || m.receives != receives {
			bad = fmt.Errorf("%w: %q", queue.ErrReceipt, r)
			continue
		}
		l.delay(l.all[id], now.Add(d))
	}
	l.promote(now) // at once for a d of 0
	return bad
}

// Stats counts exactly.
func (q *Queues) Stats(ctx context.Context, name string) (queue.Stats, error) {
	l, err := q.enter(ctx, name)
	if err != nil {
		return queue.Stats{}, err
	}
	defer q.mu.Unlock()
	return l.stats(q.clock.Now()), nil
}
