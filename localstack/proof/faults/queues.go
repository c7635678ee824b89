package faults

import (
	"context"
	"time"

	"millrace/shared/platform/queue"
)

// Queues returns the process's view of queues.
func (p *Process) Queues(inner queue.Queues) queue.Queues { return &faultyQueues{Queues: inner, p: p} }

type faultyQueues struct {
	queue.Queues
	p *Process
}

// Send sends messages, loses, delays or duplicates them, or fails, possibly
// after sending some.
func (q *faultyQueues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	for i := range msgs {
		if err := msgs[i].Check(); err != nil {
			return err
		}
	}
	f := q.p.enter(ctx, Queues, true, "Send", name)
	if f.before != nil {
		return f.before
	}
	sent := q.p.plan.mangle(msgs, f.after != nil)
	if err := q.Queues.Send(ctx, name, sent...); err != nil {
		return err
	}
	return f.after
}

// mangle draws the faults of messages; of those of a failing request only some
// may be sent.
func (p *Plan) mangle(msgs []queue.Message, fails bool) []queue.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []queue.Message
	for i, m := range msgs {
		if fails && p.rng.IntN(len(msgs)+1) < i || p.chance("lose", p.rates.Lose) {
			continue
		}
		copies := 1
		if p.chance("duplicate", p.rates.Duplicate) {
			copies += 1 + p.rng.IntN(5)
		}
		for c := range copies {
			again := m
			if c > 0 || p.chance("late", p.rates.Late) {
				again.Delay = min(m.Delay+time.Duration(p.rng.Int64N(int64(late))), queue.MaxDelay)
			}
			out = append(out, again)
		}
	}
	if p.rates != (Rates{}) {
		p.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// Receive delivers messages in any order, or fails.
func (q *faultyQueues) Receive(ctx context.Context, name string, limit int, wait time.Duration) ([]queue.Delivery, error) {
	f := q.p.enter(ctx, Queues, false, "Receive", name)
	if f.before != nil {
		return nil, f.before
	}
	got, err := q.Queues.Receive(ctx, name, limit, wait)
	if err == nil && f.after != nil {
		return nil, f.after // they are in flight, but were not delivered
	}
	return got, err
}

// Depth counts the messages that are ready, or fails.
func (q *faultyQueues) Depth(ctx context.Context, name string) (int, error) {
	if f := q.p.enter(ctx, Queues, false, "Depth", name); f.before != nil {
		return 0, f.before
	}
	return q.Queues.Depth(ctx, name)
}

// Delete removes messages, or fails.
func (q *faultyQueues) Delete(ctx context.Context, name string, receipts ...string) error {
	return q.receipts(ctx, "Delete", name, func() error { return q.Queues.Delete(ctx, name, receipts...) })
}

// Extend hides messages, or fails.
func (q *faultyQueues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	return q.receipts(ctx, "Extend", name, func() error { return q.Queues.Extend(ctx, name, d, receipts...) })
}

func (q *faultyQueues) receipts(ctx context.Context, operation, name string, do func() error) error {
	f := q.p.enter(ctx, Queues, true, operation, name)
	if f.before != nil {
		return f.before
	}
	if err := do(); err != nil {
		return err
	}
	return f.after
}
