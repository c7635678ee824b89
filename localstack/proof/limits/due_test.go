package limits

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/functions/schedulertick"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
)

// TestTimedWork: a tick reads only due entries, however many there are, and of
// ten times the entries of a tick each is handled once within ten ticks.
func TestTimedWork(t *testing.T) {
	all, due := size(5_000, 100_000), size(50, 1_000)
	var meter table.Meter
	var store table.Table
	env := localtest.Open(t, localtest.Options{
		Blob: &blobtest.Memory{},
		Wrap: func(inner table.Table) table.Table {
			store = inner
			return table.Metered(inner, &meter)
		},
	}, reminders.DueSpec)
	spec, found := catalog.Find(catalog.With(reminders.DueSpec), schedulertick.Spec.Name)
	require.True(t, found)
	handle, remind := spec.Handle(env.Deps), reminders.DueSpec.Messages(env.Deps)
	tick := func(limit, due int) (table.Usage, time.Duration) {
		payload, err := json.Marshal(events.SchedulerTick{EventType: events.TickType, MaxDue: limit})
		require.NoError(t, err)
		meter.Reset()
		began := time.Now()
		out, err := handle(t.Context(), payload)
		took := time.Since(began)
		require.NoError(t, err)
		require.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: due, Triggered: due}, out)
		return meter.Usage(), took
	}
	// The test may pass midnight, after which the audit log of a day is due.
	for _, org := range []string{env.A.OrgID, env.B.OrgID} {
		require.NoError(t, store.Transact(t.Context(), table.Delete{Key: audit.ChainKey(org)}))
	}
	now := env.Clock.Now()
	fill := func(from, to int, at func(i int) time.Time) {
		var writes []table.Write
		for i := from; i < to; i++ {
			writes = append(writes, table.Put{Item: reminders.New(reminders.Reminder, env.A.OrgID, fmt.Sprint("r", i), at(i), 0)})
			if len(writes) == 1000 || i == to-1 {
				require.NoError(t, store.BatchWrite(t.Context(), writes))
				writes = writes[:0]
			}
		}
	}
	handled := map[string]int{}
	work := func() {
		for {
			got, err := env.Deps.Queues.Receive(t.Context(), reminders.Reminder.Queue(), queue.MaxBatch, 0)
			require.NoError(t, err)
			if len(got) == 0 {
				return
			}
			var batch lambda.SQSEvent
			var receipts []string
			for _, m := range got {
				var body events.Due
				require.NoError(t, json.Unmarshal(m.Body, &body))
				handled[body.SK]++
				batch.Records = append(batch.Records, lambda.SQSMessage{MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body)})
				receipts = append(receipts, m.Receipt)
			}
			out, err := remind(t.Context(), batch)
			require.NoError(t, err)
			require.Empty(t, out.BatchItemFailures)
			require.NoError(t, env.Deps.Queues.Delete(t.Context(), reminders.Reminder.Queue(), receipts...))
		}
	}

	long := func(i int) time.Time { return now.Add(-time.Duration(i+1) * time.Second) }
	fill(0, due, long)
	alone, _ := tick(0, due)
	work()
	fill(due, 2*due, long)
	fill(2*due, all, func(i int) time.Time { return now.Add(time.Hour + time.Duration(i)*time.Millisecond) })
	among, took := tick(0, due)
	work()
	assert.Equal(t, alone, among, "what is not due costs nothing")
	t.Logf("%d due of %d: %s, %v requests, %+v", due, all, took.Round(time.Millisecond), among.Requests, among.Total())

	env.Clock.Advance(2 * time.Hour)
	left := all - 2*due
	for left > 0 {
		n := min(all/10, left)
		usage, took := tick(n, n)
		t.Logf("%d of %d due: %s, %v requests, %+v", n, left, took.Round(time.Millisecond), usage.Requests, usage.Total())
		left -= n
		work()
		env.Clock.Advance(time.Minute)
	}
	assert.Len(t, handled, all)
	for id, n := range handled {
		assert.Equal(t, 1, n, id)
	}
}
