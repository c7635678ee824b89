package backfills_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/backfills"
	"millrace/functions/deployments"
	"millrace/functions/environments"
	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/schedulertick"
	"millrace/functions/schedules"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/localtest"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

type object = map[string]any

// busQueue is the queue of the events in tests.
const busQueue = "bus-backfills-events"

// world is the service with the operations around backfills, and the flow daily.
// Its runs end when a test says so.
type world struct {
	*localtest.Env
	t      *testing.T
	bus    bus.Bus
	queues queue.Queues // of the bus
}

func open(t *testing.T, o localtest.Options) *world {
	t.Helper()
	specs := append(backfills.Specs, flows.Spec, deployments.Spec, environments.Spec, runs.Spec, schedules.Spec)
	w := &world{Env: localtest.Open(t, o, specs...), t: t}
	w.queues = memory.Queues(t, w.Clock, []queue.Definition{{Name: busQueue, Visibility: time.Minute}})
	trigger := backfills.EventsSpec.Trigger
	w.bus = localbus.New(w.queues, []localbus.Rule{{DetailTypes: trigger.DetailTypes, Where: trigger.DetailWhere, Queue: busQueue}})
	w.flow("daily", "1")
	return w
}

func (w *world) flow(name, version string) {
	w.t.Helper()
	w.Do(w.t, w.A.Key, "POST", "/flows", object{"flow_name": name, "flow_version": version, "flow_spec": object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string"}, "ds": object{"type": "string"}}, "additionalProperties": false},
		"tasks":      []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(w.t, 200)
}

// schedule stores a schedule of the flow daily, of version 1 unless fields say
// otherwise.
func (w *world) schedule(id string, fields object) {
	w.t.Helper()
	body := object{"schedule_id": id, "flow_name": "daily", "flow_version": "1"}
	for name, value := range fields {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	w.Do(w.t, w.A.Key, "POST", "/schedules", body).Require(w.t, 200)
}

// ask requests a backfill of the flow daily.
func (w *world) ask(body object) *localtest.Response {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "POST", "/flows/daily/backfill", body)
}

// hourly is the body of a backfill of so many hours.
func hourly(n, concurrency int) object {
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	return object{
		"from": from.Format(time.RFC3339), "to": from.Add(time.Duration(n-1) * time.Hour).Format(time.RFC3339),
		"interval_seconds": 3600, "max_concurrency": concurrency,
	}
}

// view is a backfill as a client reads it.
type view struct {
	BackfillID     string         `json:"backfill_id"`
	Status         string         `json:"status"`
	Total          int            `json:"total"`
	Dispatched     int            `json:"dispatched"`
	Completed      int            `json:"completed"`
	Failed         int            `json:"failed"`
	MaxConcurrency int            `json:"max_concurrency"`
	Parameters     map[string]any `json:"parameters"`
	Intervals      []struct {
		Index     int     `json:"index"`
		Epoch     int64   `json:"logical_epoch"`
		LogicalAt string  `json:"logical_at"`
		RunID     *string `json:"run_id"`
		Status    string  `json:"status"`
		Reason    *string `json:"reason"`
	} `json:"intervals"`
}

// states returns the statuses of the intervals, by their first letters.
func (v view) states() (out string) {
	for _, one := range v.Intervals {
		out += one.Status[:1]
	}
	return out
}

// get reads a backfill, and checks that its counts are those of its intervals.
func (w *world) get(id string) view {
	w.t.Helper()
	var v view
	w.Do(w.t, w.A.Key, "GET", "/backfills/"+id, nil).Require(w.t, 200).Into(w.t, &v)
	v.check(w.t)
	return v
}

// check checks a backfill that was read against itself.
func (v *view) check(t testing.TB) {
	t.Helper()
	counts, made := map[string]int{}, 0
	for i, one := range v.Intervals {
		assert.Equal(t, i, one.Index)
		counts[one.Status]++
		if one.RunID != nil {
			made++
		}
	}
	assert.Equal(t, []int{v.Total, v.Dispatched, v.Completed, v.Failed}, []int{len(v.Intervals), made, counts["SUCCEEDED"], counts["FAILED"]})
	assert.LessOrEqual(t, counts["DISPATCHED"], v.MaxConcurrency)
	if v.Status == "COMPLETED" {
		assert.Zero(t, counts["PENDING"]+counts["DISPATCHED"])
	}
}

// deliver passes the messages of a queue to a function, until there are none,
// and returns how many there were.
func deliver(t testing.TB, from queue.Queues, name string, handle fn.MessageHandler) (n int) {
	t.Helper()
	for {
		batch, err := from.Receive(t.Context(), name, queue.MaxBatch, 0)
		require.NoError(t, err)
		if len(batch) == 0 {
			return n
		}
		for _, m := range batch {
			n++
			out, err := handle(t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body)}}})
			assert.NoError(t, err)
			assert.Empty(t, out.BatchItemFailures)
			require.NoError(t, from.Delete(t.Context(), name, m.Receipt))
		}
	}
}

// begin delivers the messages of backfills that are due.
func (w *world) begin() int {
	w.t.Helper()
	return deliver(w.t, w.Deps.Queues, backfills.Due.Queue(), backfills.DueSpec.Messages(w.Deps))
}

// end ends a run, as a worker does; the event is not delivered yet.
func (w *world) end(run string, status engine.Status) {
	w.t.Helper()
	w.endWith(run, status, "")
}

// endWith ends a run with an error.
func (w *world) endWith(run string, status engine.Status, why string) {
	w.t.Helper()
	item, err := w.Deps.Table.Update(w.t.Context(), table.Update{
		Key: runstate.RunKey(w.A.OrgID, run), If: table.IsStored(),
		Do: []table.Action{
			table.Set(runstate.RunStatus, string(status)), table.Set(runstate.RunEnded, clock.ToMillis(w.Clock.Now())), table.Set(runstate.RunError, why),
			table.Remove(runstate.DuePK), table.Remove(runstate.DueSK),
		},
	})
	require.NoError(w.t, err)
	var r runstate.Run
	require.NoError(w.t, table.Unmarshal(item, &r))
	require.NoError(w.t, w.bus.Publish(w.t.Context(), finished(w.t, &r)))
}

// finished is the event of a run's end.
func finished(t testing.TB, r *runstate.Run) bus.Event {
	t.Helper()
	detail, err := json.Marshal(events.RunFinished{
		Org: r.Org, Run: r.ID, Flow: r.Flow, Version: r.Version, Status: string(r.Status), Trigger: r.Trigger, TriggeredBy: r.By,
	})
	require.NoError(t, err)
	return bus.Event{DetailType: events.DetailRunFinished, Detail: detail, Workspace: r.Org, DedupeKey: r.ID}
}

// events delivers the events of runs that have ended.
func (w *world) events() int {
	w.t.Helper()
	return deliver(w.t, w.queues, busQueue, backfills.EventsSpec.Messages(w.Deps))
}

// create creates a backfill, begins it, and returns its id.
func (w *world) create(body object) string {
	w.t.Helper()
	id := w.ask(body).Require(w.t, 200).String(w.t, "backfill_id")
	require.Equal(w.t, 1, w.begin())
	return id
}

// runs are the runs of a backfill, as GET /runs shows them.
func (w *world) runs(id string) []any {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "GET", fmt.Sprintf("/runs?trigger_source=backfill&triggered_by=backfill:%s", id), nil).Require(w.t, 200).Items(w.t)
}

// tick makes a tick, and returns how many backfills were due.
func (w *world) tick() int {
	w.t.Helper()
	tick := schedulertick.For(backfills.Due).Handle(w.Deps)
	_, err := tick(w.t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	require.NoError(w.t, err)
	return w.begin()
}
