package conductor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/memory"
	"millrace/shared/audit"
	"millrace/shared/blob/blobtest"
	"millrace/shared/clock"
	"millrace/shared/conductor"
	"millrace/shared/executor"
	"millrace/shared/launch"
	"millrace/shared/registry"
	"millrace/shared/runlog"
	"millrace/shared/signal"
	"millrace/shared/tenant"
)

// BenchmarkRun is what the engine itself spends on a run of a chain of 40 tasks,
// from its acceptance to its end: no driver, no executor.
func BenchmarkRun(b *testing.B) {
	const tasks = 40
	ctx := tenant.With(b.Context(), tenant.Principal{OrgID: org, Email: "owner@test", Role: tenant.Owner})
	now, objects, hub, log := clock.System{}, &blobtest.Memory{}, &signal.Hub{}, slog.New(slog.DiscardHandler)
	store := memory.Table(b, now)
	queues := memory.Queues(b, now, definitions())
	c := conductor.New(conductor.Config{
		Table: store, Queues: queues, Blob: objects, Bus: localbus.New(queues, nil), Clock: now, Log: log, Hub: hub, Resident: true,
		Logs:      &runlog.Store{Table: store, Blob: objects, Clock: now, Log: log},
		Executors: executor.Set{"python": instant{}},
	})
	l := &launch.Launcher{Table: store, Queues: queues, Blob: objects, Clock: now, Log: log, Hub: hub}
	names := []string{"t0"}
	for i := 1; i < tasks; i++ {
		names = append(names, fmt.Sprintf("t%d: t%d", i, i-1))
	}
	r := &registry.Registration{FlowName: "chain", FlowVersion: "1", ArtifactKey: org + "/artifacts/x.zip", DefaultExecutor: "python", ExecutionMode: "nano"}
	require.NoError(b, r.Parse(json.RawMessage(spec(names...))))
	_, err := registry.Store{Table: store, Blob: objects, Clock: now}.
		Commit(ctx, registry.Change{Register: r, Audit: func(registry.Outcome) audit.Change { return audit.Change{Action: "flow.register"} }})
	require.NoError(b, err)

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
