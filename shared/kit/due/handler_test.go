package due_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
)

// received receives all messages of the kind's queue, as Lambda passes them.
func received(t *testing.T, queues queue.Queues) (batch lambda.SQSEvent) {
	t.Helper()
	got, err := queues.Receive(t.Context(), kind.Queue(), queue.MaxBatch, 0)
	require.NoError(t, err)
	for _, m := range got {
		batch.Records = append(batch.Records, lambda.SQSMessage{
			MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:eu-west-1:1:" + kind.Queue(),
			Attributes: map[string]string{"ApproximateReceiveCount": "2"},
		})
	}
	return batch
}

// TestHandler checks that only the failed messages of a batch are delivered
// again, after a delay, and that unreadable ones are dropped with a log line.
func TestHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queues := memory.Queues(t, clock.System{}, []queue.Definition{{Name: kind.Queue(), Visibility: time.Hour}})
		send := func(org, id string) {
			key := table.Key{PK: org + "#polls", SK: id}
			m, err := due.Message(kind, key, kind.Entry(key, noon).DueSK, time.Time{})
			require.NoError(t, err)
			require.NoError(t, queues.Send(t.Context(), kind.Queue(), m))
		}
		send("org_1", "good")
		send("org_2", "fails")
		send("org_3", "panics")
		require.NoError(t, queues.Send(t.Context(), kind.Queue(), queue.Message{Body: []byte(`{"kind":"poll"}`)}))

		var log bytes.Buffer
		var mu sync.Mutex
		saw := map[string]string{}
		h := due.Handler{
			Queues: queues, Clock: clock.System{}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Do: func(ctx context.Context, task due.Task) error {
				assert.Equal(t, task.Org(), telemetry.From(ctx).Workspace)
				assert.Equal(t, noon, task.At)
				assert.Equal(t, time.Now().UTC(), task.Now)
				mu.Lock()
				saw[task.Key.SK] = tenant.From(ctx).OrgID
				mu.Unlock()
				switch task.Key.SK {
				case "fails":
					return errors.New("no")
				case "panics":
					panic("no")
				}
				return nil
			},
		}
		batch := received(t, queues)
		require.Len(t, batch.Records, 4)
		out, err := h.Messages(t.Context(), batch)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"good": "org_1", "fails": "org_2", "panics": "org_3"}, saw)
		assert.Len(t, out.BatchItemFailures, 2)
		assert.Contains(t, log.String(), "due message dropped")
		failed := map[string]bool{}
		for _, f := range out.BatchItemFailures {
			failed[f.ItemIdentifier] = true
		}
		for _, m := range batch.Records {
			if !failed[m.MessageId] { // the runtime deletes it
				require.NoError(t, queues.Delete(t.Context(), kind.Queue(), m.ReceiptHandle))
			}
		}

		time.Sleep(3 * time.Second)
		assert.Empty(t, received(t, queues).Records)
		time.Sleep(2 * time.Second)
		again := received(t, queues)
		require.Len(t, again.Records, 2, "long before their visibility is over")
		for _, m := range again.Records {
			assert.True(t, failed[m.MessageId])
		}
	})
}
