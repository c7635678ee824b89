package queuetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// concurrency sends from 4 goroutines and receives in 8. Each message must
// arrive once, because its time-out does not end. (SQS may deliver a message
// twice on rare occasions; run the suite again if it fails for that.)
func concurrency(t *testing.T, newQueues NewQueues) {
	const messages, senders, consumers = 1000, 4, 8
	qs := one(t, newQueues, long)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()

	var group sync.WaitGroup
	for s := range senders {
		group.Go(func() {
			const share = messages / senders
			for i := 0; i < share; i += queue.MaxBatch {
				var msgs []queue.Message
				for j := i; j < min(i+queue.MaxBatch, share); j++ {
					msgs = append(msgs, queue.Message{Body: body(s*share + j), Group: string(rune('a' + s))})
				}
				assert.NoError(t, qs.Send(ctx, name, msgs...))
			}
		})
	}
	var mu sync.Mutex
	got := make(map[string]int)
	done := make(chan struct{})
	for range consumers {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ds, err := qs.Receive(ctx, name, queue.MaxBatch, time.Second)
				if !assert.NoError(t, err) {
					return
				}
				receipts := make([]string, len(ds))
				mu.Lock()
				before := len(got)
				for i, d := range ds {
					receipts[i] = d.Receipt
					got[string(d.Body)]++
				}
				if before < messages && len(got) == messages {
					close(done)
				}
				mu.Unlock()
				if !assert.NoError(t, qs.Delete(ctx, name, receipts...)) {
					return
				}
			}
		})
	}
	group.Wait()
	require.Len(t, got, messages)
	for text, n := range got {
		require.Equal(t, 1, n, "%s was delivered while it was invisible", text)
	}
	none(t, qs, name)
}
