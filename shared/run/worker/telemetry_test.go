package worker

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// told is a worker at a time set by the test, with its log and metrics.
type told struct {
	*Worker
	now          time.Time
	log, numbers telemetrytest.Log
}

func newTold(t *testing.T) *told {
	t.Helper()
	w := &told{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	now := clock.Func(func() time.Time { return w.now })
	store := memory.Table(t, now)
	w.Worker = New(Config{
		Table: store, Queues: memory.Queues(t, now, fixture.Queues(time.Minute)), Clock: now, Log: w.log.Logger(), Metrics: telemetry.NewMetrics("Millrace", &w.numbers),
		Logs: &runlog.Store{Table: store, Blob: &blobtest.Memory{}, Clock: now, Log: w.log.Logger()}, LongLived: true,
	})
	run := runstate.Run{Key: runstate.RunKey("org", "run"), Org: "org", ID: "run", Status: engine.Running, Mode: "small"}
	require.NoError(t, store.Put(t.Context(), table.Put{Item: run}))
	return w
}

func (w *told) metrics(t *testing.T) []telemetrytest.Metric {
	t.Helper()
	require.NoError(t, w.Metrics.Flush(w.now, telemetry.Subject{}))
	return telemetrytest.Metrics(t, w.numbers.Lines(t))
}

// TestQueueDelayIsMeasured checks that the delay counts from when a message
// could be received, without the delay requested by its sender.
func TestQueueDelayIsMeasured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run        events.Run
		sent       time.Duration // before it was received
		deliveries int
		want       []float64 // milliseconds
	}{
		"at once":           {events.Run{Kind: events.RunStart}, 1500 * time.Millisecond, 1, []float64{1500}},
		"held back":         {events.Run{Kind: events.RunTask, Delay: 60_000}, 62 * time.Second, 1, []float64{2000}},
		"clocks that drift": {events.Run{Kind: events.RunTask, Delay: 5000}, 4 * time.Second, 1, []float64{0}},
		"delivered again":   {events.Run{Kind: events.RunTask}, time.Minute, 2, nil},
		"reconciliation":    {events.Run{Kind: events.RunReconcile}, time.Minute, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTold(t)
			s := w.session("org", "run")
			s.queue = "tasks-small"
			sent := strconv.FormatInt(w.now.Add(-c.sent).UnixMilli(), 10)
			s.waited(lambda.SQSMessage{Attributes: map[string]string{"SentTimestamp": sent}}, c.run, c.deliveries, w.now)
			var got []float64
			for _, m := range w.metrics(t) {
				assert.Equal(t, telemetrytest.Metric{Name: "QueueDelay", Unit: "Milliseconds", Dimensions: map[string]string{"Tier": "small"}, Values: m.Values}, m)
				got = append(got, m.Values...)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestLostLeasesAreCounted checks the metrics of lost leases and of the task
// that lost too many.
func TestLostLeasesAreCounted(t *testing.T) {
	t.Parallel()
	w := newTold(t)
	s := w.session("org", "run")
	s.queue = "tasks-small"
	mine, _, err := newDriver(s).attempts.claim(t.Context(), ready{node: 0, attempt: 1})
	require.NoError(t, err)
	require.NotNil(t, mine)
	attempt := mine.Attempt
	for range 2 * MaxLost { // from the third on they are delayed
		w.now = w.now.Add(HoldBack + time.Second)
		got, other, err := newDriver(s).attempts.claim(t.Context(), ready{node: 0, attempt: attempt})
		require.NoError(t, err)
		if got == nil {
			got = other
		}
		attempt = got.Attempt
	}
	got := w.metrics(t)
	assert.InDelta(t, MaxLost, telemetrytest.Sum(got, "LeasesLost", "Tier", "small"), 0)
	assert.InDelta(t, 1, telemetrytest.Sum(got, "TasksFinished", "Tier", "small", "Outcome", "FAILED"), 0)
}

// TestMessagesAreLoggedAndMeasured checks that a failure is logged with all
// fields of the message, and a success at debug level.
func TestMessagesAreLoggedAndMeasured(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newTold(t)
	ctx := telemetry.With(t.Context(), &telemetry.Subject{Function: "taskworker", Invocation: "i-1"})
	deliver := func(body string) bool {
		out, err := w.Messages(ctx, lambda.SQSEvent{Records: []lambda.SQSMessage{{
			MessageId: "m-1", Body: body, EventSourceARN: "arn:aws:sqs:local:000000000000:tasks-small",
			Attributes: map[string]string{"ApproximateReceiveCount": "3"},
		}}})
		return assert.NoError(t, err) && len(out.BatchItemFailures) == 0
	}
	require.False(t, deliver(`{"kind":"task","org_id":"org","run_id":"none","node":4,"attempt":1,"traceparent":"`+parent+`"}`))
	require.True(t, deliver(`{"kind":"look","org_id":"org","run_id":"none","traceparent":"nonsense"}`), "there is nothing to reconcile")
	require.False(t, deliver(`no JSON`))

	failed := w.log.Said(t, "message failed")
	require.Len(t, failed, 1)
	for name, want := range map[string]any{
		"level": "ERROR", "function": "taskworker", "aws_request_id": "i-1", "org_id": "org", "run_id": "none", "kind": "task", "node": 4.0,
		"deliveries": 3.0, "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331",
	} {
		assert.Equal(t, want, failed[0][name], name)
	}
	assert.NotEmpty(t, failed[0]["error"])
	handled := w.log.Said(t, "message handled")
	require.Len(t, handled, 1)
	assert.Equal(t, []any{"DEBUG", "look", nil}, []any{handled[0]["level"], handled[0]["kind"], handled[0]["trace_id"]})
	assert.Len(t, w.log.Said(t, "message is not readable"), 1)

	got := w.metrics(t)
	assert.InDelta(t, 2, telemetrytest.Sum(got, "Requests", "Function", "taskworker"), 0)
	assert.InDelta(t, 1, telemetrytest.Sum(got, "Errors", "Function", "taskworker", "Code", "internal"), 0)
}

// lost rejects all messages and records them for the test.
type lost struct {
	queue.Queues
	sent []queue.Message
}

func (q *lost) Send(_ context.Context, _ string, msgs ...queue.Message) error {
	q.sent = append(q.sent, msgs...)
	return errors.New("the queue is gone")
}

// TestMessagesHaveTraceAndDelay checks the bodies of sent messages.
func TestMessagesHaveTraceAndDelay(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newTold(t)
	q := &lost{Queues: w.Queues}
	w.Queues = q
	s := w.session("org", "run")
	ctx := s.about(t.Context(), parent)
	require.ErrorContains(t, s.send(ctx, []ready{{3, 2, 0}}, 90*time.Second), "the queue is gone")
	require.ErrorContains(t, s.reconcileLater(ctx, 0), "the queue is gone")
	require.Len(t, q.sent, 2)
	assert.JSONEq(t, `{"kind":"task","org_id":"org","run_id":"run","node":3,"attempt":2,"delay_ms":90000,"traceparent":"`+parent+`"}`, string(q.sent[0].Body))
	assert.JSONEq(t, `{"kind":"look","org_id":"org","run_id":"run","traceparent":"`+parent+`"}`, string(q.sent[1].Body))

	s = w.session("org", "run")
	s.about(t.Context(), "")
	s.traced(parent) // as in the run's input
	s.traced("00-ffffffffffffffffffffffffffffffff-b7ad6b7169203331-01")
	assert.Equal(t, parent, s.trace.String(), "the first that is known stays")

	s = w.session("org", "run")
	ctx = s.about(t.Context(), "")
	made := &attempt{item: &runstate.Node{Attempt: 1}, task: &flowspec.Task{Name: "a"}}
	s.working(made)
	assert.True(t, telemetry.From(ctx).Trace.IsZero())
	s.traced(parent)
	assert.Equal(t, s.span(made), telemetry.From(ctx).Trace, "an attempt under way keeps its span")
}
