package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/memory"
	"millrace/shared/kit/consumer"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
)

const (
	org   = "org_test"
	made  = "thing.made"
	from  = "events"
	lease = 30 * time.Second
)

// thing is the detail of the events.
type thing struct {
	Name string `json:"name"`
}

func event(name string) bus.Event {
	detail, _ := json.Marshal(thing{name})
	return bus.Event{DetailType: made, Detail: detail, Workspace: org}
}

// world is a bus, a queue fed by its only rule, and a table.
type world struct {
	t      *testing.T
	table  table.Table
	queues queue.Queues
	bus    bus.Bus

	mu    sync.Mutex
	calls map[string]int // of handlers, by thing
}

func embedded(t *testing.T) *world {
	queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: from, Visibility: time.Minute}})
	return &world{
		t: t, table: memory.Table(t, clock.System{}), queues: queues, calls: map[string]int{},
		bus: localbus.New(queues, []localbus.Rule{{DetailTypes: []string{made, "thing.unknown"}, Queue: from}}),
	}
}

// process returns a consumer of the world's events on its own view of the
// table.
func (w *world) process(tbl table.Table, handle func(ctx context.Context, d *consumer.Delivery, detail thing) error) *consumer.Consumer {
	return consumer.New(consumer.Config{
		Name: "counter", Table: tbl, Queues: w.queues, Clock: clock.System{}, Log: telemetry.NewLogger(w.t.Output(), telemetry.Text, slog.LevelWarn), Lease: lease,
	}, consumer.On(made, handle))
}

// count is a handler that counts its calls.
func (w *world) count(_ context.Context, _ *consumer.Delivery, detail thing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[detail.Name]++
	return nil
}

// called returns the number of calls so far.
func (w *world) called(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[name]
}

// receive receives up to ten messages in the form that a function gets.
func (w *world) receive(wait time.Duration) lambda.SQSEvent {
	got, err := w.queues.Receive(w.t.Context(), from, queue.MaxBatch, wait)
	require.NoError(w.t, err)
	var batch lambda.SQSEvent
	for _, m := range got {
		batch.Records = append(batch.Records, lambda.SQSMessage{
			MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + from,
			Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)},
		})
	}
	return batch
}

// deliver passes a batch to a process, deletes the handled messages and returns
// those to be delivered again.
func (w *world) deliver(c *consumer.Consumer, batch lambda.SQSEvent) []string {
	out, err := c.Messages(w.t.Context(), batch)
	require.NoError(w.t, err)
	failed := map[string]bool{}
	var again []string
	for _, f := range out.BatchItemFailures {
		failed[f.ItemIdentifier] = true
		again = append(again, f.ItemIdentifier)
	}
	for _, m := range batch.Records {
		if !failed[m.MessageId] {
			require.NoError(w.t, w.queues.Delete(w.t.Context(), from, m.ReceiptHandle))
		}
	}
	return again
}

// drain delivers until no message is left, including delayed ones.
func (w *world) drain(c *consumer.Consumer) {
	for {
		stats, err := w.queues.Stats(w.t.Context(), from)
		require.NoError(w.t, err)
		if stats == (queue.Stats{}) {
			return
		}
		w.deliver(c, w.receive(5*time.Second))
	}
}

func (w *world) publish(events ...bus.Event) {
	w.t.Helper()
	require.NoError(w.t, w.bus.Publish(w.t.Context(), events...))
}

// TestEventIsHandledOnce: an event that is published or delivered several times
// is handled once; the same event in another workspace is another event.
func TestEventIsHandledOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		other := event("a")
		other.Workspace = "org_other"
		w.publish(event("a"), event("a"), event("b"), other)
		c := w.process(w.table, w.count)
		batch := w.receive(0)
		require.Len(t, batch.Records, 4)
		w.deliver(c, batch)
		again, err := c.Messages(t.Context(), batch)
		require.NoError(t, err)
		assert.Empty(t, again.BatchItemFailures)
		w.drain(c)
		assert.Equal(t, map[string]int{"a": 2, "b": 1}, w.calls)
		time.Sleep(consumer.Retention - time.Hour)
		w.publish(event("b"))
		w.drain(c)
		assert.Equal(t, 1, w.called("b"))
		time.Sleep(2 * time.Hour)
		w.publish(event("b"))
		w.drain(c)
		assert.Equal(t, 2, w.called("b"), "it is forgotten")
	})
}

// TestFailedEventIsDeliveredAgain: an event whose handler failed or panicked is
// delivered again soon; others of its batch are not.
func TestFailedEventIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		c := w.process(w.table, func(ctx context.Context, d *consumer.Delivery, detail thing) error {
			_ = w.count(ctx, d, detail)
			switch {
			case detail.Name == "failing" && w.called("failing") < 3:
				return errors.New("not now")
			case detail.Name == "panicking" && w.called("panicking") < 2:
				panic("no")
			}
			return nil
		})
		w.publish(event("failing"), event("fine"), event("panicking"))
		began := time.Now()
		assert.Len(t, w.deliver(c, w.receive(0)), 2)
		w.drain(c)
		assert.Equal(t, map[string]int{"failing": 3, "fine": 1, "panicking": 2}, w.calls)
		assert.Less(t, time.Since(began), lease, "the claim was released")
	})
}

// TestExpiredLeaseIsTakenOver: while one process handles an event no other
// does; another takes over when the lease of a dead process has expired.
func TestExpiredLeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		began := time.Now()
		dead, die := context.WithCancel(t.Context())
		hung := w.process(w.table, func(context.Context, *consumer.Delivery, thing) error {
			<-dead.Done()
			return nil
		})
		w.publish(event("a"), event("a"))
		first := w.receive(0)
		require.Len(t, first.Records, 2)
		gone := make(chan struct{})
		go func() { // its response is lost
			defer close(gone)
			_, _ = hung.Messages(t.Context(), lambda.SQSEvent{Records: first.Records[:1]})
		}()
		synctest.Wait()
		live := w.process(w.table, w.count)
		assert.Len(t, w.deliver(live, lambda.SQSEvent{Records: first.Records[1:]}), 1)
		assert.Zero(t, w.called("a"))
		w.drain(live)
		assert.Equal(t, 1, w.called("a"))
		assert.GreaterOrEqual(t, time.Since(began), lease)
		die()
		<-gone
		assert.Equal(t, 1, w.called("a"))
	})
}

// TestHandlerIsCancelledAtEndOfLease: the handler's context ends with the
// lease.
func TestHandlerIsCancelledAtEndOfLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		var took time.Duration
		c := w.process(w.table, func(ctx context.Context, _ *consumer.Delivery, _ thing) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return nil
		})
		w.publish(event("a"))
		w.drain(c)
		assert.Equal(t, lease, took)
	})
}

// TestUnreadableMessagesBecomeDeadLetters: a message that is not an event, or
// without a handler, becomes a dead letter; others of its batch are handled.
func TestUnreadableMessagesBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		unknown, wrong, nobody := event("a"), event("a"), event("a")
		unknown.DetailType = "thing.unknown"
		wrong.Detail = []byte(`{"name":1}`)
		nobody.Workspace = ""
		w.publish(event("fine"), unknown, wrong, nobody)
		require.NoError(t, w.queues.Send(t.Context(), from, queue.Message{Body: []byte(`{"kind":"look"}`)}))
		c := w.process(w.table, w.count)
		w.drain(c)
		assert.Equal(t, map[string]int{"fine": 1}, w.calls)
		dead, err := w.queues.Receive(t.Context(), from+"-dead", queue.MaxBatch, 0)
		require.NoError(t, err)
		assert.Len(t, dead, 4)
	})
}

// dying is a table whose process dies at its n-th write, before or after the
// write is applied.
type dying struct {
	table.Table
	writes int
	done   bool
}

var errDead = errors.New("the process died")

func (d *dying) write(do func() error) error {
	if d.writes--; d.writes < 0 {
		return errDead
	}
	if d.writes == 0 && !d.done {
		return errDead
	}
	err := do()
	if d.writes == 0 {
		return errDead
	}
	return err
}

func (d *dying) Put(ctx context.Context, p table.Put) error {
	return d.write(func() error { return d.Table.Put(ctx, p) })
}

func (d *dying) Update(ctx context.Context, u table.Update) (item table.Item, err error) {
	err = d.write(func() error {
		item, err = d.Table.Update(ctx, u)
		return err
	})
	return item, err
}

func (d *dying) Delete(ctx context.Context, del table.Delete) error {
	return d.write(func() error { return d.Table.Delete(ctx, del) })
}

func (d *dying) Transact(ctx context.Context, writes ...table.Write) error {
	return d.write(func() error { return d.Table.Transact(ctx, writes...) })
}

// TestCrashLosesNoEvent makes the process die before and after each write, and
// loses its response. The event is handled nevertheless, and exactly once by a
// handler whose transaction marks it.
func TestCrashLosesNoEvent(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		for _, done := range []bool{false, true} {
			for _, marks := range []bool{false, true} {
				t.Run(fmt.Sprintf("write %d, done %v, marks %v", n, done, marks), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := embedded(t)
						effect := table.Key{PK: org + "#effect", SK: "a"}
						over := func(tbl table.Table) *consumer.Consumer {
							return w.process(tbl, func(ctx context.Context, d *consumer.Delivery, _ thing) error {
								add := table.Update{Key: effect, Do: []table.Action{table.Add("n", 1)}}
								if marks {
									return tbl.Transact(ctx, add, d.Handled())
								}
								_, err := tbl.Update(ctx, add)
								return err
							})
						}
						w.publish(event("a"))
						_, err := over(&dying{Table: w.table, writes: n, done: done}).Messages(t.Context(), w.receive(0))
						require.NoError(t, err)
						w.drain(over(w.table))
						w.publish(event("a"))
						w.drain(over(w.table))
						item, err := w.table.Get(t.Context(), effect)
						require.NoError(t, err)
						if marks {
							assert.EqualValues(t, 1, item["n"].Int())
						} else {
							assert.LessOrEqual(t, item["n"].Int(), int64(2))
						}
					})
				})
			}
		}
	}
}

// TestLostLeaseTakesNoEffect: a process that lost the event to another can
// neither mark it nor take effect, whether the other is still handling it or
// has handled it.
func TestLostLeaseTakesNoEffect(t *testing.T) {
	t.Parallel()
	t.Run("while the other handles it", func(t *testing.T) { t.Parallel(); lostLease(t, true) })
	t.Run("after the other handled it", func(t *testing.T) { t.Parallel(); lostLease(t, false) })
}

func lostLease(t *testing.T, atIt bool) {
	synctest.Test(t, func(t *testing.T) {
		w := embedded(t)
		effect := table.Key{PK: org + "#effect", SK: "a"}
		add := table.Update{Key: effect, Do: []table.Action{table.Add("n", 1)}}
		resume, lost := make(chan struct{}), make(chan error, 1)
		slow := w.process(w.table, func(_ context.Context, d *consumer.Delivery, _ thing) error {
			<-resume
			err := w.table.Transact(t.Context(), add, d.Handled())
			lost <- err
			return err
		})
		w.publish(event("a"))
		batch := w.receive(0)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = slow.Messages(t.Context(), batch)
		}()
		time.Sleep(lease + time.Second)
		goOn := func() {
			close(resume)
			assert.ErrorIs(t, <-lost, table.ErrConditionFailed)
			<-gone
		}
		w.drain(w.process(w.table, func(ctx context.Context, d *consumer.Delivery, _ thing) error {
			if atIt {
				goOn()
			}
			return w.table.Transact(ctx, add, d.Handled())
		}))
		if !atIt {
			goOn()
		}
		item, err := w.table.Get(t.Context(), effect)
		require.NoError(t, err)
		assert.EqualValues(t, 1, item["n"].Int())
		w.publish(event("a"))
		w.drain(w.process(w.table, w.count))
		assert.Zero(t, w.called("a"), "it stays marked")
	})
}

func TestDuplicateRoutesPanic(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	assert.Panics(t, func() {
		consumer.New(consumer.Config{Name: "twice"}, consumer.On(made, w.count), consumer.On(made, w.count))
	})
}
