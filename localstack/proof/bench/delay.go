package bench

import (
	"context"
	"time"

	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
)

// delay makes requests take time.
type delay struct{ each time.Duration }

func (d *delay) table(next table.Table) table.Table {
	if d == nil {
		return next
	}
	return delayedTable{next, d}
}

func (d *delay) queues(next queue.Queues) queue.Queues {
	if d == nil {
		return next
	}
	return delayedQueues{next, d}
}

func (d *delay) wait() { time.Sleep(d.each) }

// delayedTable delays the requests to a table.
type delayedTable struct {
	table.Table
	*delay
}

func (t delayedTable) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	t.wait()
	return t.Table.Get(ctx, key, opts...)
}

func (t delayedTable) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	t.wait()
	return t.Table.BatchGet(ctx, keys, opts...)
}

func (t delayedTable) Put(ctx context.Context, put table.Put) error {
	t.wait()
	return t.Table.Put(ctx, put)
}

func (t delayedTable) Update(ctx context.Context, u table.Update) (table.Item, error) {
	t.wait()
	return t.Table.Update(ctx, u)
}

func (t delayedTable) Delete(ctx context.Context, del table.Delete) error {
	t.wait()
	return t.Table.Delete(ctx, del)
}

func (t delayedTable) BatchWrite(ctx context.Context, writes []table.Write) error {
	t.wait()
	return t.Table.BatchWrite(ctx, writes)
}

func (t delayedTable) Transact(ctx context.Context, writes ...table.Write) error {
	t.wait()
	return t.Table.Transact(ctx, writes...)
}

func (t delayedTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	t.wait()
	return t.Table.Query(ctx, q)
}

// delayedQueues delays the requests to queues.
type delayedQueues struct {
	queue.Queues
	*delay
}

func (q delayedQueues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	q.wait()
	return q.Queues.Send(ctx, name, msgs...)
}

func (q delayedQueues) Receive(ctx context.Context, name string, most int, wait time.Duration) ([]queue.Delivery, error) {
	q.wait()
	return q.Queues.Receive(ctx, name, most, wait)
}

func (q delayedQueues) Delete(ctx context.Context, name string, receipts ...string) error {
	q.wait()
	return q.Queues.Delete(ctx, name, receipts...)
}

func (q delayedQueues) Extend(ctx context.Context, name string, d time.Duration, receipts ...string) error {
	q.wait()
	return q.Queues.Extend(ctx, name, d, receipts...)
}
