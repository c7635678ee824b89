package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/share"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

const workers = 16

// parking is a runtime whose handler of "wait" parks until opened, and that
// counts its handlers.
type parking struct {
	*runtime.Runtime
	queues  queue.Queues
	open    chan struct{}
	waiting atomic.Int64 // parked handlers that wait
	resumed atomic.Int64
	running atomic.Int64 // handlers with a worker again after waiting
	most    atomic.Int64
	plain   atomic.Int64 // other messages handled
	errs    chan error
}

func park(t *testing.T) *parking {
	p := &parking{open: make(chan struct{}), errs: make(chan error, 3000)}
	p.queues = memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Hour}})
	specs := []fn.Spec{{
		Name: "eater", Trigger: fn.Trigger{Queues: []fn.QueueTrigger{{Queue: "q", Batch: 10}}},
		Messages: func(fn.Deps) fn.MessageHandler { return p.handle },
	}}
	var err error
	p.Runtime, err = runtime.New(runtime.Config{Specs: specs, Deps: fn.Deps{Queues: p.queues, Log: slog.New(slog.DiscardHandler)}, Workers: workers})
	require.NoError(t, err)
	p.Start(specs, false)
	return p
}

func (p *parking) handle(ctx context.Context, e lambda.SQSEvent) (lambda.SQSEventResponse, error) {
	if e.Records[0].Body != `"wait"` {
		p.plain.Add(1)
		return lambda.SQSEventResponse{}, nil
	}
	err := queue.Park(ctx, func(ctx context.Context) error {
		p.waiting.Add(1)
		defer p.waiting.Add(-1)
		select {
		case <-p.open:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		p.errs <- err
		return lambda.SQSEventResponse{}, err
	}
	n := p.running.Add(1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	time.Sleep(time.Second)
	p.running.Add(-1)
	p.resumed.Add(1)
	return lambda.SQSEventResponse{}, nil
}

func (p *parking) send(t *testing.T, n int, body string) {
	t.Helper()
	for range n {
		send(t, p.queues, body)
	}
}

func TestParkedHandlersHoldNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := park(t)
		defer p.Stop(t.Context())
		p.send(t, 100, `"wait"`)
		synctest.Wait()
		require.Equal(t, int64(100), p.waiting.Load())
		began := time.Now()
		p.send(t, 1, `"go"`)
		synctest.Wait()
		assert.Equal(t, int64(1), p.plain.Load())
		assert.Zero(t, time.Since(began), "handled at once")

		close(p.open)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, int64(100), p.resumed.Load())
		assert.Equal(t, int64(share.Alone(workers)), p.most.Load(), "who goes on has a worker again")
		stats, err := p.queues.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, queue.Stats{}, stats)
	})
}

func TestParkedHandlersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := park(t)
		defer p.Stop(t.Context())
		p.send(t, share.Alone(runtime.MaxParked)+1, `"wait"`)
		synctest.Wait()
		assert.Equal(t, int64(2000), p.waiting.Load())
		require.Len(t, p.errs, 1)
		require.ErrorIs(t, <-p.errs, queue.ErrParked)
		require.NoError(t, p.queues.Send(t.Context(), "q", queue.Message{Body: []byte(`"wait"`), Group: "other"}))
		synctest.Wait()
		assert.Equal(t, int64(2001), p.waiting.Load(), "another workspace's may wait as well")
		assert.Empty(t, p.errs)
		close(p.open)
	})
}

func TestStopEndsParkedHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := park(t)
		p.send(t, 100, `"wait"`)
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p.Stop(ctx)
		assert.Zero(t, time.Since(began), "they have begun nothing that is worth waiting for")
		require.Len(t, p.errs, 100)
		for range 100 {
			require.ErrorIs(t, <-p.errs, context.Canceled)
		}
		stats, err := p.queues.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, 100, stats.Visible+stats.InFlight+stats.Delayed, "they are delivered again")
	})
}

func TestParkWithoutRuntime(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	called := false
	require.ErrorIs(t, queue.Park(t.Context(), func(ctx context.Context) error {
		called = ctx == t.Context()
		return boom
	}), boom)
	assert.True(t, called)
}
