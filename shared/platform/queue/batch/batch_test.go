package batch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/batch"
)

const name = "work"

var errFailed = errors.New("failed")

// received receives all visible messages as Lambda passes them. Their ids are
// their bodies.
func received(t *testing.T, queues queue.Queues) (messages lambda.SQSEvent) {
	t.Helper()
	got, err := queues.Receive(t.Context(), name, queue.MaxBatch, 0)
	require.NoError(t, err)
	for _, m := range got {
		messages.Records = append(messages.Records, lambda.SQSMessage{
			MessageId: string(m.Body), ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:eu-west-1:1:" + name,
			Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)},
		})
	}
	return messages
}

// TestMessagesDelaysFailedOnes handles a message whose n-th delivery fails, and
// measures when the next one is made.
func TestMessagesDelaysFailedOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func() error
		want []time.Duration
	}{
		"error":       {func() error { return errFailed }, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		"panic":       {func() error { panic("a mistake") }, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		"own delay":   {func() error { return batch.RetryAfter(7*time.Second, errFailed) }, []time.Duration{7 * time.Second, 7 * time.Second}},
		"upper bound": {func() error { return errFailed }, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: "work", Visibility: time.Hour}})
				require.NoError(t, queues.Send(t.Context(), "work", queue.Message{Body: []byte(`"m"`)}))
				h := batch.Handler{Queues: queues, Log: slog.New(slog.DiscardHandler), Do: func(context.Context, batch.Message) error { return c.do() }}
				for i, want := range c.want {
					out, err := h.Messages(t.Context(), received(t, queues))
					require.NoError(t, err)
					require.Equal(t, []lambda.SQSBatchItemFailure{{ItemIdentifier: `"m"`}}, out.BatchItemFailures, "delivery %d", i+1)
					time.Sleep(want - time.Millisecond)
					require.Empty(t, received(t, queues).Records, "delivery %d", i+2)
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

// TestMessagesHandlesEachOnItsOwn checks that the messages of a batch are
// handled concurrently, that those that fail are returned in the order of the
// batch, and what the handler is told of each.
func TestMessagesHandlesEachOnItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: name, Visibility: time.Hour}})
		for _, body := range []string{`"panics"`, `"fails"`, `"succeeds"`} {
			require.NoError(t, queues.Send(t.Context(), name, queue.Message{Body: []byte(body)}))
		}
		var log bytes.Buffer
		met := make(chan struct{})
		h := batch.Handler{Queues: queues, Log: slog.New(slog.NewTextHandler(&log, nil)), Do: func(_ context.Context, m batch.Message) error {
			assert.Equal(t, name, m.Queue)
			assert.Equal(t, 1, m.Receives)
			switch m.Body {
			case `"succeeds"`:
				close(met)
			case `"fails"`:
				<-met
				return errFailed
			default:
				<-met
				panic("private data")
			}
			return nil
		}}
		messages := received(t, queues)
		out, err := h.Messages(t.Context(), messages)
		require.NoError(t, err)
		var want, got []string
		for _, m := range messages.Records {
			if m.Body != `"succeeds"` {
				want = append(want, m.MessageId)
			}
		}
		for _, f := range out.BatchItemFailures {
			got = append(got, f.ItemIdentifier)
		}
		assert.Len(t, want, 2)
		assert.Equal(t, want, got)
		assert.Contains(t, log.String(), "handler panicked")
		assert.NotContains(t, log.String(), "private data")
	})
}

// TestMessagesOfStoppingProcess checks that a failed message is delayed although
// its context is cancelled.
func TestMessagesOfStoppingProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: name, Visibility: time.Hour}})
		require.NoError(t, queues.Send(t.Context(), name, queue.Message{Body: []byte(`"m"`)}))
		ctx, cancel := context.WithCancel(t.Context())
		h := batch.Handler{Queues: queues, Log: slog.New(slog.DiscardHandler), Do: func(ctx context.Context, _ batch.Message) error {
			cancel()
			return ctx.Err()
		}}
		out, err := h.Messages(ctx, received(t, queues))
		require.NoError(t, err)
		require.Len(t, out.BatchItemFailures, 1)
		time.Sleep(2 * time.Second)
		assert.Len(t, received(t, queues).Records, 1)
	})
}

func TestRetryAfterWrapsItsError(t *testing.T) {
	t.Parallel()
	err := batch.RetryAfter(time.Second, errFailed)
	require.ErrorIs(t, err, errFailed)
	assert.EqualError(t, err, errFailed.Error())
}
