package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func receiveEmpty(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	ds, err := qs.Receive(t.Context(), name, queue.MaxBatch, 0)
	require.NoError(t, err)
	assert.Empty(t, ds)

	began := time.Now()
	ds, err = qs.Receive(t.Context(), name, queue.MaxBatch, time.Second)
	require.NoError(t, err)
	assert.Empty(t, ds)
	assert.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond, "it waits")
}

func receiveWaits(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	type result struct {
		ds  []queue.Delivery
		err error
	}
	results := make(chan result, 1)
	go func() {
		ds, err := qs.Receive(t.Context(), name, 1, queue.MaxWait)
		results <- result{ds, err}
	}()
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(7)}))
	select {
	case r := <-results:
		require.NoError(t, r.err)
		require.Len(t, r.ds, 1)
		assert.Equal(t, string(body(7)), string(r.ds[0].Body))
	case <-time.After(patience):
		t.Fatal("the receiver was not told of the message")
	}
}

func receiveEndsWithContext(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	began := time.Now()
	_, err := qs.Receive(ctx, name, 1, queue.MaxWait)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), queue.MaxWait/2)

	// The abandoned receive must not take messages for long.
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	assert.Equal(t, string(body(1)), string(next(t, qs, name).Body))
}
