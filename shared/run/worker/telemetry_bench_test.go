package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/notify"
	"millrace/shared/run/executor"
	"millrace/shared/run/launch"
	"millrace/shared/run/runlog"
	"millrace/shared/run/worker"
)

// BenchmarkRun measures the engine's own cost of a run of a chain of 40 tasks,
// from its acceptance to its end: no driver, no executor.
func BenchmarkRun(b *testing.B) {
	const tasks = 40
	ctx := fixture.Owner(b.Context(), org)
	now, objects, hub, log := clock.System{}, &blobtest.Memory{}, &notify.Broker{}, slog.New(slog.DiscardHandler)
	store := memory.Table(b, now)
	queues := memory.Queues(b, now, fixture.Queues(2*time.Minute))
	c := worker.New(worker.Config{
		Table: store, Queues: queues, Blob: objects, Bus: localbus.New(queues, nil), Clock: now, Log: log, Broker: hub, LongLived: true,
		Logs:      &runlog.Store{Table: store, Blob: objects, Clock: now, Log: log},
		Executors: executor.Set{"python": instant{}},
	})
	l := &launch.Launcher{Table: store, Queues: queues, Blob: objects, Clock: now, Log: log, Broker: hub}
	names := []string{"t0"}
	for i := 1; i < tasks; i++ {
		names = append(names, fmt.Sprintf("t%d: t%d", i, i-1))
	}
	require.NoError(b, fixture.Register(ctx, store, objects, "chain", spec(names...)))

	b.ReportAllocs()
	for b.Loop() {
		_, err := l.Accept(ctx, org, launch.Request{Flow: "chain", Version: "1", Trigger: launch.Manual})
		require.NoError(b, err)
		got, err := queues.Receive(ctx, events.Tasks("nano"), 10, 0)
		require.NoError(b, err)
		require.Len(b, got, 1)
		out, err := c.Messages(ctx, lambda.SQSEvent{Records: []lambda.SQSMessage{{
			MessageId: got[0].ID, ReceiptHandle: got[0].Receipt, Body: string(got[0].Body),
			Attributes: map[string]string{
				"ApproximateReceiveCount": "1", "SentTimestamp": strconv.FormatInt(got[0].Sent.UnixMilli(), 10),
			},
			EventSourceARN: "arn:aws:sqs:local:000000000000:" + events.Tasks("nano"),
		}}})
		require.NoError(b, err)
		require.Empty(b, out.BatchItemFailures)
		require.NoError(b, queues.Delete(ctx, events.Tasks("nano"), got[0].Receipt))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/tasks, "µs/task")
}

// instant succeeds at once.
type instant struct{}

func (instant) Instant() bool { return true }

func (instant) Execute(context.Context, *executor.Attempt) executor.Result { return ok(`null`) }
