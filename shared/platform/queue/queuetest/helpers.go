package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// name is the queue that most cases use.
const name = "work"

// one returns a port with one queue.
func one(t *testing.T, newQueues NewQueues, visibility time.Duration) queue.Queues {
	t.Helper()
	return newQueues(t, queue.Definition{Name: name, Visibility: visibility})
}

func body(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }

// numbered returns n messages of a group with distinct bodies.
func numbered(n int, group string) []queue.Message {
	msgs := make([]queue.Message, n)
	for i := range msgs {
		msgs[i] = queue.Message{Body: body(i), Group: group}
	}
	return msgs
}

// collect receives n deliveries, or as many as arrive within patience.
func collect(t *testing.T, qs queue.Queues, from string, n int) []queue.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []queue.Delivery
	for len(got) < n {
		ds, err := qs.Receive(ctx, from, min(queue.MaxBatch, n-len(got)), time.Second)
		require.NoError(t, err, "received %d of %d messages", len(got), n)
		got = append(got, ds...)
	}
	return got
}

// next receives one delivery.
func next(t *testing.T, qs queue.Queues, from string) queue.Delivery {
	t.Helper()
	return collect(t, qs, from, 1)[0]
}

// none asserts that the queue delivers nothing for a while.
func none(t *testing.T, qs queue.Queues, from string) {
	t.Helper()
	until := time.Now().Add(settle)
	for time.Now().Before(until) {
		ds, err := qs.Receive(t.Context(), from, queue.MaxBatch, 0)
		require.NoError(t, err)
		require.Empty(t, ds)
		pause := time.NewTimer(settle / 10)
		<-pause.C
	}
}

func bodies(ds []queue.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = string(d.Body)
	}
	return out
}

func wanted(msgs []queue.Message) []string {
	out := make([]string, len(msgs))
	for i, m := range msgs {
		out[i] = string(m.Body)
	}
	return out
}
