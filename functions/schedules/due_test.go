package schedules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/functions/schedules"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/schedule"
)

// tick makes a tick, and delivers each message of it so many times at once.
func (w *world) tick(times int) events.SchedulerTickResult {
	w.t.Helper()
	tick := schedulertick.For(schedule.Due).Handle(w.Deps)
	out, err := tick(w.t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(w.t, err)
	w.deliver(times, true)
	return out.(events.SchedulerTickResult)
}

// deliver handles the messages of schedules.
func (w *world) deliver(times int, succeeds bool) {
	w.t.Helper()
	start := schedules.DueSpec.Messages(w.Deps)
	for {
		batch, err := w.Deps.Queues.Receive(w.t.Context(), schedule.Due.Queue(), queue.MaxBatch, 0)
		require.NoError(w.t, err)
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			var all sync.WaitGroup
			for range times {
				all.Go(func() {
					out, err := start(w.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body)}}})
					assert.NoError(w.t, err)
					assert.Equal(w.t, succeeds, len(out.BatchItemFailures) == 0)
				})
			}
			all.Wait()
			require.NoError(w.t, w.Deps.Queues.Delete(w.t.Context(), schedule.Due.Queue(), m.Receipt))
		}
	}
}

// dates are the logical dates of the workspace's runs, the oldest run first.
func (w *world) dates() (all []string) {
	w.t.Helper()
	for _, item := range w.Do(w.t, w.A.Key, "GET", "/runs?limit=500", nil).Require(w.t, 200).Items(w.t) {
		detail := w.Do(w.t, w.A.Key, "GET", "/runs/"+item.(object)["run_id"].(string), nil).Require(w.t, 200)
		assert.Equal(w.t, "schedule", detail.String(w.t, "trigger_source"))
		all = append([]string{detail.String(w.t, "logical_date")}, all...)
	}
	return all
}

// TestOccurrenceMakesOneRun however often the tick and its messages are repeated.
func TestOccurrenceMakesOneRun(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.at("2027-03-04T05:06:07Z")
	w.put("nightly", cron("30 6 * * *", "Europe/Berlin")).Require(t, 200)
	assert.Zero(t, w.tick(1).Checked)
	w.at("2027-03-04T05:30:00Z")
	for range 3 {
		w.tick(4)
		w.Clock.Advance(time.Minute)
	}
	assert.Equal(t, []string{"2027-03-04T05:30:00.000Z"}, w.dates())
	run := w.Do(t, w.A.Key, "GET", "/runs", nil).Require(t, 200).Items(t)[0].(object)
	assert.Equal(t, "schedule:nightly", run["triggered_by"])
	after := w.get("nightly")
	assert.Equal(t, run["run_id"], after.Get(t, "last_run_id"))
	assert.Equal(t, "2027-03-04T05:30:00.000Z", after.Get(t, "last_run_at"))
	assert.Equal(t, json.Number("1804224600"), after.Get(t, "next_run_epoch"), "the same time tomorrow")

	entries := w.Audit(t, w.A.OrgID)
	last := entries[len(entries)-1]
	assert.Equal(t, "run", last.ResourceType)
	assert.Equal(t, `{"instant":"2027-03-04T05:30:00.000Z","schedule_id":"nightly"}`, last.Metadata)
}

// slowTable takes a millisecond for a transaction, so that runs are ordered by
// their ids. The first updates of it fail.
type slowTable struct {
	table.Table
	clock *localtest.Clock
	fails int
}

func (s *slowTable) Transact(ctx context.Context, writes ...table.Write) error {
	if s.clock != nil {
		s.clock.Advance(time.Millisecond)
	}
	return s.Table.Transact(ctx, writes...)
}

func (s *slowTable) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if s.fails > 0 && strings.HasSuffix(u.Key.PK, "#schedules") {
		s.fails--
		return nil, table.ErrThrottled
	}
	return s.Table.Update(ctx, u)
}

// TestRunIsMadeAndTheScheduleIsNotMoved: the occurrence comes up again and finds
// its run.
func TestRunIsMadeAndTheScheduleIsNotMoved(t *testing.T) {
	t.Parallel()
	slow := &slowTable{}
	w := open(t, localtest.Options{Wrap: func(next table.Table) table.Table { slow.Table = next; return slow }})
	w.at("2027-03-04T06:00:00Z")
	w.put("nightly", nil).Require(t, 200)
	w.at("2027-03-04T07:00:00Z")
	tick := schedulertick.For(schedule.Due).Handle(w.Deps)
	_, err := tick(t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(t, err)
	slow.fails = 1
	w.deliver(1, false)
	assert.Len(t, w.dates(), 1)
	assert.Nil(t, w.get("nightly").Get(t, "last_run_at"))
	w.Clock.Advance(3 * time.Minute)
	w.tick(1)
	assert.Equal(t, []string{"2027-03-04T07:00:00.000Z"}, w.dates())
	assert.Equal(t, "2027-03-04T07:00:00.000Z", w.get("nightly").Get(t, "last_run_at"))
}

func TestCatchUp(t *testing.T) {
	t.Parallel()
	all := func(from, n int) (dates []string) {
		for i := range n {
			dates = append(dates, clock.Format(time.Date(2027, 3, 4, 6, from+i, 0, 0, time.UTC)))
		}
		return dates
	}
	for name, c := range map[string]struct {
		fields object
		ticks  int
		want   []string
		next   string
	}{
		"none, by an expression":  {cron("* * * * *", "UTC"), 1, all(1, 1), "2027-03-04T08:31:00Z"},
		"none, by an interval":    {object{"interval_seconds": 60}, 1, all(1, 1), "2027-03-04T08:31:00Z"},
		"none, an odd interval":   {object{"interval_seconds": 4200}, 1, all(70, 1), "2027-03-04T09:30:00Z"},
		"all, the first hundred":  {with(cron("* * * * *", "UTC"), "catchup_policy", "all"), 1, all(1, 100), "2027-03-04T07:41:00Z"},
		"all, with the next tick": {with(object{"interval_seconds": 60}, "catchup_policy", "all"), 2, all(1, 150), "2027-03-04T08:31:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := &slowTable{}
			w := open(t, localtest.Options{Wrap: func(next table.Table) table.Table { slow.Table = next; return slow }})
			slow.clock = w.Clock
			w.at("2027-03-04T06:00:00.5Z")
			w.put("often", c.fields).Require(t, 200)
			w.at("2027-03-04T08:30:00.2Z") // no tick came for two hours and a half
			for range c.ticks {
				w.tick(1)
			}
			assert.Equal(t, c.want, w.dates())
			next, err := w.get("often").Get(t, "next_run_epoch").(json.Number).Int64()
			require.NoError(t, err)
			assert.Equal(t, c.next, time.Unix(next, 0).UTC().Format(time.RFC3339))
		})
	}
}

func with(fields object, name string, value any) object {
	fields[name] = value
	return fields
}

// TestBadScheduleStopsNoOther: it says what is wrong, and goes on.
func TestBadScheduleStopsNoOther(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.at("2027-03-04T06:00:00Z")
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "prod", "flow_name": "daily", "flow_version": "1"}).Require(t, 200)
	w.put("bad", object{"deployment": "prod", "flow_name": nil, "flow_version": nil}).Require(t, 200)
	for i := range 5 {
		w.put(fmt.Sprint("good-", i), nil).Require(t, 200)
	}
	w.Do(t, w.A.Key, "DELETE", "/deployments/prod", nil).Require(t, 200)
	w.at("2027-03-04T07:00:00Z")
	assert.Equal(t, 6, w.tick(2).Triggered)
	assert.Len(t, w.dates(), 5)
	bad := w.get("bad")
	assert.Contains(t, bad.Get(t, "last_error"), "prod")
	assert.Nil(t, bad.Get(t, "last_run_id"))
	assert.Equal(t, "2027-03-04T07:00:00.000Z", bad.Get(t, "last_run_at"))

	w.Do(t, w.A.Key, "PATCH", "/schedules/bad", object{"parameters": object{"day": "x"}}).Require(t, 404)
	w.Do(t, w.A.Key, "PATCH", "/schedules/bad", object{"enabled": false}).Require(t, 200)
	w.Do(t, w.A.Key, "PATCH", "/schedules/bad", object{"enabled": true}).Require(t, 404)
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "prod", "flow_name": "daily", "flow_version": "1"}).Require(t, 200)
	w.Do(t, w.A.Key, "PATCH", "/schedules/bad", object{"enabled": true}).Require(t, 200)
	w.at("2027-03-04T08:00:00Z")
	w.tick(1)
	assert.Len(t, w.dates(), 11)
	good := w.get("bad")
	assert.Nil(t, good.Get(t, "last_error"))
	assert.NotNil(t, good.Get(t, "last_run_id"))
}

// TestLimitDelaysAnOccurrence: it is neither lost nor skipped.
func TestLimitDelaysAnOccurrence(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"runs-per-minute=1"}})
	w.at("2027-03-04T06:00:00Z")
	w.put("nightly", nil).Require(t, 200)
	w.at("2027-03-04T07:00:00Z")
	w.Do(t, w.A.Key, "POST", "/schedules/nightly/trigger", nil).Require(t, 200)
	tick := schedulertick.For(schedule.Due).Handle(w.Deps)
	_, err := tick(t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(t, err)
	w.deliver(1, false)
	assert.Contains(t, w.get("nightly").Get(t, "last_error"), "runs-per-minute")
	w.Clock.Advance(10 * time.Minute)
	w.tick(1)
	assert.Equal(t, "2027-03-04T07:00:00.000Z", w.dates()[1])
	assert.Nil(t, w.get("nightly").Get(t, "last_error"))
}

// TestMonthlyQuotaDelaysAnOccurrence until the next month, by no message that comes
// again and again.
func TestMonthlyQuotaDelaysAnOccurrence(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"runs-per-month=1"}})
	w.at("2027-03-31T06:00:00Z")
	w.put("nightly", nil).Require(t, 200)
	w.put("other", object{"catchup_policy": "all"}).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/schedules/nightly/trigger", nil).Require(t, 200)
	w.at("2027-03-31T07:00:00Z")
	w.Do(t, w.A.Key, "PATCH", "/schedules/other", object{"enabled": false}).Require(t, 200)
	refused := w.Do(t, w.A.Key, "POST", "/schedules/nightly/trigger", nil).Require(t, 429)
	assert.Contains(t, refused.String(t, "detail"), "Monthly quota")
	assert.Equal(t, "61200", refused.Header.Get("Retry-After"), "17 hours")
	for range 3 {
		w.tick(1)
		w.Clock.Advance(2 * time.Minute)
	}
	waiting := w.get("nightly")
	assert.Contains(t, waiting.Get(t, "last_error"), "runs-per-month")
	assert.Equal(t, json.Number("1806476400"), waiting.Get(t, "next_run_epoch"), "it is still that of 07:00")
	assert.Len(t, w.dates(), 1)
	w.at("2027-04-01T00:00:30Z")
	w.tick(1)
	assert.Equal(t, "2027-03-31T07:00:00.000Z", w.dates()[1])
	assert.Nil(t, w.get("nightly").Get(t, "last_error"))
	assert.Equal(t, json.Number("1806541200"), w.get("nightly").Get(t, "next_run_epoch"), "what was missed makes one run")
}

func TestDisabledScheduleStartsNothing(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.at("2027-03-04T06:00:00Z")
	w.put("nightly", with(object{"interval_seconds": 60}, "catchup_policy", "all")).Require(t, 200)
	w.at("2027-03-04T07:00:00Z")
	// It is disabled between the tick and its message.
	tick := schedulertick.For(schedule.Due).Handle(w.Deps)
	_, err := tick(t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(t, err)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": false}).Require(t, 200)
	w.deliver(2, true)
	assert.Zero(t, w.tick(1).Checked)
	assert.Empty(t, w.dates())

	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": true}).Require(t, 200)
	w.tick(1)
	assert.Empty(t, w.dates(), "what it missed is not caught up")
	w.Clock.Advance(time.Minute)
	w.tick(1)
	assert.Len(t, w.dates(), 1)
}
