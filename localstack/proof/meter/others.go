package meter

import (
	"context"
	"io"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/queue"
)

// Queues wraps queues and counts requests as SQS does, in batches of up to ten.
// A Receive without messages is not counted, because the service does not
// control how often an idle poller asks.
func (m *Meter) Queues(next queue.Queues) queue.Queues { return countedQueues{next, m} }

type countedQueues struct {
	queue.Queues
	meter *Meter
}

func batches(n int) int { return (n + queue.MaxBatch - 1) / queue.MaxBatch }

func (c countedQueues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	c.meter.add(func(u *Usage) { u.Sends += batches(len(msgs)); u.Messages += len(msgs) })
	return c.Queues.Send(ctx, name, msgs...)
}

func (c countedQueues) Receive(ctx context.Context, name string, most int, wait time.Duration) ([]queue.Delivery, error) {
	got, err := c.Queues.Receive(ctx, name, most, wait)
	if len(got) > 0 {
		c.meter.add(func(u *Usage) { u.Receives++ })
	}
	return got, err
}

func (c countedQueues) Delete(ctx context.Context, name string, receipts ...string) error {
	c.meter.add(func(u *Usage) { u.Deletes += batches(len(receipts)) })
	return c.Queues.Delete(ctx, name, receipts...)
}

func (c countedQueues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	c.meter.add(func(u *Usage) { u.Extends += batches(len(receipts)) })
	return c.Queues.Extend(ctx, name, d, receipts...)
}

func (c countedQueues) Depth(ctx context.Context, name string) (int, error) {
	c.meter.add(func(u *Usage) { u.Depths++ })
	return c.Queues.Depth(ctx, name)
}

// Objects wraps an object store and counts the objects that are written and
// read, whole or in part.
func (m *Meter) Objects(next blob.Store) blob.Store { return countedObjects{next, m} }

type countedObjects struct {
	blob.Store
	meter *Meter
}

func (c countedObjects) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	c.meter.add(func(u *Usage) { u.Puts++ })
	return c.Store.Put(ctx, key, body, size, opts)
}

func (c countedObjects) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	c.meter.add(func(u *Usage) { u.Gets++ })
	return c.Store.Get(ctx, key, rng)
}

// Bus wraps a bus and counts the published events.
func (m *Meter) Bus(next bus.Bus) bus.Bus { return countedBus{next, m} }

type countedBus struct {
	next  bus.Bus
	meter *Meter
}

func (c countedBus) Publish(ctx context.Context, events ...bus.Event) error {
	c.meter.add(func(u *Usage) { u.Events += len(events) })
	return c.next.Publish(ctx, events...)
}
