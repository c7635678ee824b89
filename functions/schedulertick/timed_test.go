package schedulertick_test

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
	timed "millrace/shared/kit/due"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// world is a service with timed work. The test itself delivers the messages.
type world struct {
	*localtest.Env
	t      *testing.T
	tick   fn.Handler
	remind fn.MessageHandler
}

func open(t *testing.T, o localtest.Options) *world {
	t.Helper()
	w := &world{t: t}
	w.Env = localtest.Open(t, o, reminders.DueSpec)
	w.remind = reminders.DueSpec.Messages(w.Deps)
	w.on(w.Deps)
	return w
}

// on rebuilds the tick like the catalog.
func (w *world) on(d fn.Deps) {
	w.t.Helper()
	spec, found := catalog.Find(catalog.With(reminders.DueSpec), schedulertick.Spec.Name)
	require.True(w.t, found)
	w.tick = spec.Handle(d)
}

func (w *world) ticks(payload string) events.SchedulerTickResult {
	w.t.Helper()
	out, err := w.tick(w.t.Context(), json.RawMessage(payload))
	require.NoError(w.t, err)
	return out.(events.SchedulerTickResult)
}

// put stores a reminder that is due at an offset from now.
func (w *world) put(kind timed.Kind, id string, in, every time.Duration) table.Key {
	w.t.Helper()
	r := reminders.New(kind, w.A.OrgID, id, w.Env.Clock.Now().Add(in), every)
	require.NoError(w.t, w.Deps.Table.Put(w.t.Context(), table.Put{Item: r}))
	return r.Key
}

func (w *world) get(key table.Key) reminders.Record {
	w.t.Helper()
	r, err := table.Load[reminders.Record](w.t.Context(), w.Deps.Table, key)
	require.NoError(w.t, err)
	return r
}

// take receives the messages of a kind, handles each the given number of times,
// and returns them.
func (w *world) take(kind timed.Kind, times int) (taken []events.Due) {
	w.t.Helper()
	for {
		batch, err := w.Deps.Queues.Receive(w.t.Context(), kind.Queue(), queue.MaxBatch, 0)
		require.NoError(w.t, err)
		if len(batch) == 0 {
			return taken
		}
		for _, m := range batch {
			var body events.Due
			require.NoError(w.t, json.Unmarshal(m.Body, &body))
			assert.Equal(w.t, kind.Name, body.Kind)
			assert.Equal(w.t, w.A.OrgID, m.Group)
			taken = append(taken, body)
			for range times {
				out, err := w.remind(w.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body)}}})
				require.NoError(w.t, err)
				assert.Empty(w.t, out.BatchItemFailures)
			}
			require.NoError(w.t, w.Deps.Queues.Delete(w.t.Context(), kind.Queue(), m.Receipt))
		}
	}
}

func TestTimedWorkIsSentToItsFunction(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	once := w.put(reminders.Reminder, "once", -time.Minute, 0)
	often := w.put(reminders.Deadline, "often", -time.Second, time.Hour)
	onceAt, oftenAt := w.get(once).DueAt, w.get(often).DueAt.Time()
	later := w.put(reminders.Reminder, "later", time.Minute, 0)
	due(t, w.Env, 1)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 3, Triggered: 3}, w.ticks(`{"event_type":"scheduler_tick"}`))
	assert.Len(t, reconciliations(t, w.Env), 1, "runs are as they were")

	// Each message is delivered three times.
	assert.Len(t, w.take(reminders.Reminder, 3), 1)
	assert.Len(t, w.take(reminders.Deadline, 3), 1)
	got := w.get(once)
	assert.Equal(t, 1, got.Count, "a message that comes again changes nothing")
	assert.Equal(t, timed.Entry{}, got.Entry)
	assert.Equal(t, onceAt, got.Last)
	got = w.get(often)
	assert.Equal(t, 1, got.Count)
	assert.Equal(t, reminders.Deadline.Entry(often, oftenAt.Add(time.Hour)), got.Entry)
	assert.Zero(t, w.get(later).Count)

	w.Env.Clock.Advance(2 * time.Hour)
	assert.Equal(t, 4, w.ticks(`{"event_type":"scheduler_tick"}`).Triggered, "and two runs")
	assert.Len(t, w.take(reminders.Reminder, 1), 1)
	assert.Len(t, w.take(reminders.Deadline, 1), 1)
	assert.Equal(t, []int{1, 2, 1}, []int{w.get(once).Count, w.get(often).Count, w.get(later).Count})
}

func TestLostMessageIsRepeated(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	key := w.put(reminders.Reminder, "r", -time.Second, 0)
	w.ticks(`{"event_type":"scheduler_tick"}`)
	first := w.take(reminders.Reminder, 0)
	require.Len(t, first, 1)
	w.Env.Clock.Advance(time.Minute)
	assert.Zero(t, w.ticks(`{"event_type":"scheduler_tick"}`).Checked, "it was handed out")
	w.Env.Clock.Advance(time.Minute)
	assert.Equal(t, 1, w.ticks(`{"event_type":"scheduler_tick"}`).Triggered, "nobody acted")
	assert.Equal(t, first, w.take(reminders.Reminder, 1), "it is due since the same time")
	assert.Equal(t, 1, w.get(key).Count)
}

// TestChangedEntryIsNotMoved checks that a due time that a user sets while the
// entry is handed out is kept.
func TestChangedEntryIsNotMoved(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	for name, to := range map[string]timed.Entry{
		"moved": reminders.Reminder.Entry(reminders.Key(w.A.OrgID, "moved"), w.Env.Clock.Now().Add(time.Hour)), "ended": {},
	} {
		key := w.put(reminders.Reminder, name, -time.Second, time.Minute)
		w.ticks(`{"event_type":"scheduler_tick"}`)
		_, err := w.Deps.Table.Update(t.Context(), table.Update{Key: key, Do: to.Set()})
		require.NoError(t, err)
		assert.Len(t, w.take(reminders.Reminder, 1), 1)
		got := w.get(key)
		assert.Zero(t, got.Count, name)
		assert.Equal(t, to, got.Entry, name)
	}
	gone := w.put(reminders.Reminder, "gone", -time.Second, 0)
	w.ticks(`{"event_type":"scheduler_tick"}`)
	require.NoError(t, w.Deps.Table.Delete(t.Context(), table.Delete{Key: gone}))
	assert.Len(t, w.take(reminders.Reminder, 1), 1)
	_, err := w.Deps.Table.Get(t.Context(), gone)
	require.ErrorIs(t, err, table.ErrNotFound, "what was deleted is not made again")
}

func TestTickMayCarryItsTime(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Config: fn.Config{Exclusive: true}})
	now := w.Env.Clock.Now()
	tick := func(at time.Time) events.SchedulerTickResult {
		return w.ticks(`{"event_type":"scheduler_tick","now":"` + at.Format(time.RFC3339Nano) + `"}`)
	}
	due(t, w.Env, 1) // one run is due, another a minute later
	poll := w.put(reminders.Reminder, "poll", time.Hour, 24*time.Hour)
	deadline := w.put(reminders.Deadline, "deadline", time.Hour, 0)
	past := w.put(reminders.Reminder, "past", -48*time.Hour, 0)

	noon := now.Add(-24 * time.Hour).Truncate(time.Second)
	assert.Equal(t, 2, tick(noon).Triggered, "what was due a day ago, and the run, which goes by the clock")
	assert.Len(t, reconciliations(t, w.Env), 1)
	assert.Len(t, w.take(reminders.Reminder, 1), 1)
	assert.Equal(t, noon, w.get(past).Now.Time())

	year := now.Add(365 * 24 * time.Hour).Truncate(time.Second)
	assert.Equal(t, 1, tick(year).Triggered, "neither the deadline nor the run")
	assert.Len(t, w.take(reminders.Reminder, 1), 1)
	assert.Equal(t, year, w.get(poll).Now.Time())
	assert.Zero(t, w.get(deadline).Count)
	assert.Zero(t, tick(noon).Triggered)

	// If a message sent for a distant time is lost, the entry comes up again by
	// the clock, but not before it is due.
	assert.Equal(t, 1, tick(year).Triggered)
	assert.Len(t, w.take(reminders.Reminder, 0), 1)
	w.Env.Clock.Advance(24 * time.Hour)
	assert.Equal(t, 3, w.ticks(`{"event_type":"scheduler_tick"}`).Triggered, "two runs and the deadline")
	assert.Len(t, w.take(reminders.Deadline, 1), 1)
	w.Env.Clock.Advance(time.Hour)
	assert.Equal(t, 3, w.ticks(`{"event_type":"scheduler_tick"}`).Triggered, "two runs and the poll")
	assert.Len(t, w.take(reminders.Reminder, 1), 1)
	assert.WithinDuration(t, w.Env.Clock.Now(), w.get(poll).Now.Time(), time.Minute, "by the clock")

	for _, bad := range []string{"noon", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z"} {
		_, err := w.tick(t.Context(), json.RawMessage(`{"event_type":"scheduler_tick","now":"`+bad+`"}`))
		assert.Equal(t, errs.Invalid, errs.CodeOf(err), bad)
	}
}

// inShards returns ids of reminders by shard.
func inShards(org string, n int) [][]string {
	ids := make([][]string, timed.Shards)
	for i, full := 0, 0; full < timed.Shards; i++ {
		id := fmt.Sprint("r", i)
		place := reminders.Reminder.Entry(reminders.Key(org, id), time.UnixMilli(1)).DuePK
		for shard := range timed.Shards {
			if place == reminders.Reminder.Partition(shard) && len(ids[shard]) < n {
				if ids[shard] = append(ids[shard], id); len(ids[shard]) == n {
					full++
				}
			}
		}
	}
	return ids
}

// TestNoShardStarves checks a shard with more entries than a tick handles: the
// others get their share, and the full shard the rest.
func TestNoShardStarves(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	ids := inShards(w.A.OrgID, 200)
	for i, id := range ids[5] {
		w.put(reminders.Reminder, id, -time.Hour-time.Duration(i)*time.Second, 0)
	}
	for shard := range ids {
		if shard != 5 {
			w.put(reminders.Reminder, ids[shard][0], -time.Second, 0)
		}
	}
	w.put(reminders.Deadline, "d", -time.Second, 0)
	due(t, w.Env, 4)
	result := w.ticks(`{"event_type":"scheduler_tick","max_due":100}`)
	assert.Equal(t, 100, result.Triggered)
	assert.Len(t, reconciliations(t, w.Env), 4)
	assert.Len(t, w.take(reminders.Deadline, 1), 1)
	handed := w.take(reminders.Reminder, 1)
	assert.Len(t, handed, 95)
	for shard := range ids {
		if shard != 5 {
			assert.Equal(t, 1, w.get(reminders.Key(w.A.OrgID, ids[shard][0])).Count, "shard %d", shard)
		}
	}
	for i, id := range ids[5] {
		want := 0
		if i >= 200-80 { // the oldest
			want = 1
		}
		assert.Equal(t, want, w.get(reminders.Key(w.A.OrgID, id)).Count, "%d of the full shard", i)
	}
}

// TestUnknownEntryIsSkipped checks that an entry that this version does not
// understand is counted and left in place, and does not delay others.
func TestUnknownEntryIsSkipped(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	odd := reminders.New(reminders.Reminder, w.A.OrgID, "odd", w.Env.Clock.Now(), 0)
	odd.DueSK = odd.DueSK[:13]
	require.NoError(t, w.Deps.Table.Put(t.Context(), table.Put{Item: odd}))
	key := w.put(reminders.Reminder, "r", -time.Second, 0)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 2, Triggered: 1, Failures: 1}, w.ticks(`{"event_type":"scheduler_tick"}`))
	w.take(reminders.Reminder, 1)
	assert.Equal(t, 1, w.get(key).Count)
	assert.Equal(t, odd, w.get(odd.Key))
}

// TestAllDueEntriesAreHandled checks that of ten times the entries of a tick
// each is handled once within ten ticks, the oldest of a shard first, even if a
// shard cannot be read in the first tick.
func TestAllDueEntriesAreHandled(t *testing.T) {
	t.Parallel()
	const all = 2000
	w := open(t, localtest.Options{})
	left := map[string]map[string]time.Time{} // by shard and item
	var writes []table.Write
	for i := range all {
		r := reminders.New(reminders.Reminder, w.A.OrgID, fmt.Sprint("r", i), w.Env.Clock.Now().Add(-time.Duration(i+1)*time.Second), 0)
		if left[r.DuePK] == nil {
			left[r.DuePK] = map[string]time.Time{}
		}
		left[r.DuePK][r.SK] = r.DueAt.Time()
		writes = append(writes, table.Put{Item: r})
	}
	require.NoError(t, w.Deps.Table.BatchWrite(t.Context(), writes))
	bad := reminders.Reminder.Partition(7)
	b := &broken{Table: w.Deps.Table, down: func(partition string) bool { return partition == bad }}
	d := w.Deps
	d.Table = b
	w.on(d)
	for i := range 10 {
		result := w.ticks(fmt.Sprintf(`{"event_type":"scheduler_tick","max_due":%d}`, all/10))
		failures := 1
		if i >= 3 {
			failures = 0
		}
		require.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: all / 10, Triggered: all / 10, Failures: failures}, result, "tick %d", i)
		newest := map[string]time.Time{}
		for _, m := range w.take(reminders.Reminder, 1) {
			shard := reminders.Reminder.Entry(table.Key{PK: m.PK, SK: m.SK}, m.At).DuePK
			require.Contains(t, left[shard], m.SK, "it was not handed out before")
			delete(left[shard], m.SK)
			if m.At.After(newest[shard]) {
				newest[shard] = m.At
			}
		}
		for shard, items := range left {
			for id, since := range items {
				require.True(t, newest[shard].Before(since), "%s of %s is older than what was taken", id, shard)
			}
		}
		if i == 2 {
			b.down = func(string) bool { return false }
		}
		w.Env.Clock.Advance(time.Minute)
	}
	for i := range all {
		assert.Equal(t, 1, w.get(reminders.Key(w.A.OrgID, fmt.Sprint("r", i))).Count)
	}
	assert.Zero(t, w.ticks(`{"event_type":"scheduler_tick"}`).Checked)
}
