package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

const (
	backlog      = 1_000_000 // messages
	sendBatch    = 1000
	sendGroups   = 4
	receivesEach = 5000 // number of timed receives
	opensEach    = 5
)

var (
	backlogRow     = "receive, " + thousands(backlog) + " messages waiting"
	drainRow       = thousands(backlog) + " messages received and deleted"
	afterRow       = "receive after " + thousands(backlog) + " messages"
	openRow        = "queues opened, " + thousands(backlog) + " messages waiting"
	openAfterRow   = "queues opened after " + thousands(backlog) + " messages"
	queueMemoryRow = "queues' memory, " + thousands(backlog) + " messages waiting"
)

func messageGroup() group {
	return group{[]string{backlogRow, queueMemoryRow, openRow, drainRow, openAfterRow, afterRow}, messages}
}

// inbox is a queue whose deliveries are timed.
type inbox struct {
	db     *store.DB
	queues *pebblequeue.Queues
}

const inboxName = "inbox"

// open opens the queues.
func (i *inbox) open(ctx context.Context) (*pebblequeue.Queues, error) {
	def := queue.Definition{Name: inboxName, Visibility: time.Minute}
	return pebblequeue.New(ctx, i.db, clock.System{}, []queue.Definition{def})
}

// opens times reopening the queues, and returns the memory they take besides
// the store.
func (i *inbox) opens(ctx context.Context) (out samples, memory int64, err error) {
	for range opensEach {
		before := heap()
		begin := time.Now()
		again, err := i.open(ctx)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, time.Since(begin))
		memory = heap() - before
		if err := again.Close(); err != nil {
			return nil, 0, err
		}
	}
	return out, memory, nil
}

// send sends n messages in batches.
func (i *inbox) send(ctx context.Context, n int) error {
	batch := make([]queue.Message, min(n, sendBatch))
	for at := range batch {
		batch[at].Body = fmt.Appendf(nil, `{"kind":"task","org_id":"01K5SAMPLE0000000000000001","run_id":"01K5SAMPLE%016d","node":1,"attempt":1}`, at)
		batch[at].Group = fmt.Sprint("group", at%sendGroups)
	}
	for ; n > 0; n -= len(batch) {
		if err := i.queues.Send(ctx, inboxName, batch...); err != nil {
			return err
		}
	}
	return nil
}

// take receives up to most messages and deletes them. took is the duration of
// the receive.
func (i *inbox) take(ctx context.Context, most int) (n int, took time.Duration, err error) {
	begin := time.Now()
	got, err := i.queues.Receive(ctx, inboxName, most, 0)
	took = time.Since(begin)
	if err != nil || len(got) == 0 {
		return 0, took, err
	}
	receipts := make([]string, len(got))
	for at, m := range got {
		receipts[at] = m.Receipt
	}
	return len(got), took, i.queues.Delete(ctx, inboxName, receipts...)
}

// receives times receives of one message; before is called before each.
func (i *inbox) receives(ctx context.Context, before func() error) (out samples, err error) {
	for range receivesEach {
		if err := before(); err != nil {
			return nil, err
		}
		n, took, err := i.take(ctx, 1)
		if err == nil && n != 1 {
			err = errors.New("there was no message to receive")
		}
		if err != nil {
			return nil, err
		}
		out = append(out, took)
	}
	return out, nil
}

// drain receives and deletes all messages.
func (i *inbox) drain(ctx context.Context, want int) (time.Duration, error) {
	begin, got := time.Now(), 0
	for {
		n, _, err := i.take(ctx, queue.MaxBatch)
		if err != nil {
			return 0, err
		}
		if got += n; n == 0 {
			break
		}
	}
	if got != want {
		return 0, fmt.Errorf("%d messages were sent and %d received", want, got)
	}
	return time.Since(begin), nil
}

// heap returns the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first only ran finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// messages times receives before and behind a long backlog.
func messages(ctx context.Context, b *bench) (err error) {
	dir, err := os.MkdirTemp(b.dir, "messages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	i := &inbox{}
	if i.db, err = store.Open(dir, store.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.db.Close()) }()
	if i.queues, err = i.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.queues.Close()) }()
	if err := i.send(ctx, backlog); err != nil {
		return err
	}
	opened, held, err := i.opens(ctx)
	if err != nil {
		return err
	}
	waiting, err := i.receives(ctx, func() error { return nil })
	if err != nil {
		return err
	}
	drained, err := i.drain(ctx, backlog-receivesEach)
	if err != nil {
		return err
	}
	again, _, err := i.opens(ctx)
	if err != nil {
		return err
	}
	after, err := i.receives(ctx, func() error { return i.send(ctx, 1) })
	if err != nil {
		return err
	}
	b.show(timed(backlogRow, waiting))
	b.show(row{name: queueMemoryRow, median: fmt.Sprintf("%d KB", max(held, 0)>>10)})
	b.show(timed(openRow, opened))
	b.show(row{name: drainRow, median: span(drained)})
	b.show(timed(openAfterRow, again))
	b.show(timed(afterRow, after))
	return nil
}
