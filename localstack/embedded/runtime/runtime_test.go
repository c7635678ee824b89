package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/share"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// open returns a runtime with one function triggered by a queue.
func open(t *testing.T, handle fn.MessageHandler, more ...fn.Spec) (*runtime.Runtime, queue.Queues, []fn.Spec) {
	queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	specs := append(more, fn.Spec{
		Name: "eater", Trigger: fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "q", Batch: 10}}},
		Messages: func(fn.Deps) fn.MessageHandler { return handle },
	})
	rt, err := runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: queues, Log: slog.New(slog.DiscardHandler)}, Workers: 4})
	require.NoError(t, err)
	return rt, queues, specs
}

func send(t *testing.T, q queue.Queues, bodies ...string) {
	for _, b := range bodies {
		require.NoError(t, q.Send(t.Context(), "q", queue.Message{Body: []byte(b), Group: "g"}))
	}
}

func TestFailedMessageIsDeliveredAgainSoon(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no") },
		"panic": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				deliveries := make(chan int, 10)
				n := 0
				rt, queues, specs := open(t, func(_ context.Context, e lambda.SQSEvent) (lambda.SQSEventResponse, error) {
					n++
					deliveries <- n
					if n == 1 {
						return lambda.SQSEventResponse{}, fail()
					}
					assert.Equal(t, "2", e.Records[0].Attributes["ApproximateReceiveCount"])
					return lambda.SQSEventResponse{}, nil
				})
				began := time.Now()
				rt.Start(specs, false)
				defer rt.Stop(t.Context())
				send(t, queues, "{}")
				<-deliveries
				<-deliveries
				assert.Less(t, time.Since(began), time.Minute, "long before its visibility is over")
				synctest.Wait()
				stats, err := queues.Stats(t.Context(), "q")
				require.NoError(t, err)
				assert.Equal(t, queue.Stats{}, stats, "deleted once it was handled")
			})
		})
	}
}

func TestLongMessageDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := make(chan string, 10)
		rt, queues, specs := open(t, func(ctx context.Context, e lambda.SQSEvent) (lambda.SQSEventResponse, error) {
			if body := e.Records[0].Body; body == `"long"` {
				<-ctx.Done() // until the runtime stops
			} else {
				handled <- body
			}
			return lambda.SQSEventResponse{}, nil
		})
		rt.Start(specs, false)
		send(t, queues, `"long"`, `"a"`, `"b"`, `"c"`)
		for range 3 {
			<-handled
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rt.Stop(gone)
	})
}

func TestTickEveryMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticks := make(chan time.Time, 10)
		tick := fn.Spec{Name: "tick", Trigger: fn.Trigger{EveryMinute: true}, Handle: func(fn.Deps) fn.Handler {
			return func(_ context.Context, payload json.RawMessage) (any, error) {
				assert.JSONEq(t, `{"event_type":"scheduler_tick","max_due":10000}`, string(payload))
				ticks <- time.Now()
				return "ok", nil
			}
		}}
		rt, _, specs := open(t, nil, tick)
		rt.Start(specs, true)
		defer rt.Stop(t.Context())
		first, second := <-ticks, <-ticks
		assert.Equal(t, time.Minute, second.Sub(first))
		assert.Zero(t, first.Second())
		out, err := rt.Invoke(t.Context(), "tick", json.RawMessage(`{"event_type":"scheduler_tick","max_due":10000}`))
		require.NoError(t, err)
		assert.JSONEq(t, `"ok"`, string(out))
		_, err = rt.Invoke(t.Context(), "nobody", nil)
		assert.ErrorIs(t, err, runtime.ErrUnknownFunction)
	})
}

// TestDrainBeginsNothingNew drains a runtime while a handler works: the handler
// may finish, is told to begin nothing more, and other messages stay in the
// queue.
func TestDrainBeginsNothingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var before, after atomic.Bool
		queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
		specs := []fn.Spec{{
			Name: "eater", Trigger: fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "q", Batch: 10}}},
			Messages: func(fn.Deps) fn.MessageHandler {
				return func(ctx context.Context, _ lambda.SQSEvent) (lambda.SQSEventResponse, error) {
					before.Store(queue.Stopping(ctx))
					time.Sleep(time.Second)
					after.Store(queue.Stopping(ctx))
					return lambda.SQSEventResponse{}, ctx.Err()
				}
			},
		}}
		rt, err := runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: queues, Log: slog.New(slog.DiscardHandler)}})
		require.NoError(t, err)
		rt.Start(specs, false)
		assert.Zero(t, rt.Handling("eater"))
		send(t, queues, `"a"`)
		synctest.Wait()
		assert.Equal(t, 1, rt.Handling("eater"))
		assert.Zero(t, rt.Handling("another"))
		rt.Drain()
		send(t, queues, `"b"`)
		rt.Stop(t.Context())
		assert.Zero(t, rt.Handling("eater"))
		assert.False(t, before.Load())
		assert.True(t, after.Load())
		stats, err := queues.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{Visible: 1, Oldest: time.Second}, stats, "the first is done, the second waits")
		assert.False(t, queue.Stopping(t.Context()), "nothing stops without a runtime")
	})
}

// deaf is a queue driver whose receivers get nothing.
type deaf struct{ *pebblequeue.Queues }

func (deaf) ReceiveShared(ctx context.Context, _ string, _ int, _ time.Duration, _ *share.Slots) ([]queue.Delivery, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestMessageIsHandedOnBySender checks that a message with nothing in its way needs
// no receiver, and that its worker is free when it is handled.
func TestMessageIsHandedOnBySender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		queues := deaf{memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})}
		specs := []fn.Spec{{
			Name: "eater", Trigger: fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "q", Batch: 10}}},
			Messages: func(fn.Deps) fn.MessageHandler {
				return func(context.Context, lambda.SQSEvent) (lambda.SQSEventResponse, error) {
					handled.Add(1)
					return lambda.SQSEventResponse{}, nil
				}
			},
		}}
		rt, err := runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: queues, Log: slog.New(slog.DiscardHandler)}, Workers: 2})
		require.NoError(t, err)
		rt.Start(specs, false)
		synctest.Wait() // it hands on from then
		for range 10 {
			send(t, queues, `"a"`)
			synctest.Wait()
		}
		assert.EqualValues(t, 10, handled.Load())
		assert.Zero(t, rt.Handling("eater"))
		rt.Stop(t.Context())
		send(t, queues, `"late"`)
		stats, err := queues.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{Visible: 1}, stats)
	})
}
