package runs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/run/engine"
)

func TestCancelOfQueuedRun(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	before := w.AuditCount(t, w.A.OrgID)
	admin := w.User(t, w.A, tenant.Admin)
	members := w.AuditCount(t, w.A.OrgID) - before // the admin was added
	res := w.Do(t, admin, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200).Object(t)
	assert.ElementsMatch(t, []string{"run_id", "status", "cancelled_by", "cancelled_at"}, keysOf(res))
	assert.Equal(t, id, res["run_id"])
	assert.Equal(t, "cancelled", res["status"])
	assert.Contains(t, res["cancelled_by"], "admin@")
	at, err := time.Parse("2006-01-02T15:04:05.000Z", res["cancelled_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, w.Clock.Now(), at, time.Minute)
	d := w.get(t, id)
	assert.Equal(t, "CANCELLED", d.Status)
	assert.Equal(t, res["cancelled_by"], *d.CancelledBy)
	assert.Equal(t, res["cancelled_at"], *d.CancelledAt)
	assert.NotNil(t, d.EndedAt)
	assert.Nil(t, d.StartedAt)
	assert.Nil(t, d.DurationMS)
	assert.Equal(t, []string{"a#1 CANCELLED", "b#1 CANCELLED"}, brief(d.TaskRuns))
	assert.Equal(t, before+members+1, w.AuditCount(t, w.A.OrgID))
	entry := w.audited(t, id, "cancel")
	assert.Contains(t, entry.Before, "QUEUED")
	assert.Contains(t, entry.After, "CANCELLED")

	w.work(t) // the start message is still there
	w.finish(t, "etl", nil)
	d = w.get(t, id)
	assert.Equal(t, "CANCELLED", d.Status, "cancel is final")
	assert.Nil(t, d.StartedAt)
}

func TestCancelOfRunningRun(t *testing.T) {
	t.Parallel()
	w := online(t)
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	w.flow(t, "etl", "1", tasks(call("hangs", server.URL), transform("never", "1", after("hangs"))))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	<-begun
	assert.Equal(t, "RUNNING", w.get(t, id).Status)
	res := w.Do(t, w.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200)
	assert.Equal(t, "cancellation_requested", res.String(t, "status"))
	d := w.ended(t, id)
	assert.Equal(t, "CANCELLED", d.Status)
	assert.Equal(t, []string{"hangs#1 CANCELLED", "never#1 CANCELLED"}, brief(d.TaskRuns))
	assert.NotNil(t, d.StartedAt)
	assert.NotNil(t, d.DurationMS)
}

func TestCancelAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	cancel := func(code int) *response {
		return w.Do(t, w.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, code)
	}
	w.become(t, id, engine.Running)
	first := cancel(200)
	assert.Equal(t, "cancellation_requested", first.String(t, "status"))
	before := w.AuditCount(t, w.A.OrgID)
	w.Clock.Advance(time.Minute)
	again := cancel(200)
	assert.JSONEq(t, string(first.Body), string(again.Body), "nothing changes")
	w.become(t, id, engine.Cancelled)
	again = cancel(200)
	assert.Equal(t, "cancelled", again.String(t, "status"))
	assert.Equal(t, first.String(t, "cancelled_at"), again.String(t, "cancelled_at"))
	for _, status := range []engine.Status{engine.Succeeded, engine.Failed, engine.TimedOut} {
		w.become(t, id, status)
		assert.Contains(t, cancel(400).String(t, "detail"), string(status))
		assert.Equal(t, string(status), w.get(t, id).Status)
	}
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID), "what changes nothing is not audited")
}

func TestCancelKeepsResultsOfFinishedTasks(t *testing.T) {
	t.Parallel()
	w := online(t)
	url, calls := failing(t, 0)
	w.flow(t, "etl", "1", tasks(
		call("effect", url), object{"name": "pause", "type": "wait", "config": object{"seconds": 3600}, "depends_on": []string{"effect"}},
	))
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	require.Eventually(t, func() bool {
		tasks := w.get(t, id).TaskRuns
		return tasks[1].Status == "RUNNING"
	}, time.Minute, 5*time.Millisecond)
	w.Do(t, w.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200)
	d := w.ended(t, id)
	assert.Equal(t, "CANCELLED", d.Status)
	assert.Equal(t, []string{"effect#1 SUCCEEDED", "pause#1 CANCELLED"}, brief(d.TaskRuns))
	assert.Equal(t, map[string]any{"ok": true}, d.TaskRuns[0].Output.(object)["json"], "its output is kept")
	assert.EqualValues(t, 1, calls.Load(), "the effect is not repeated")
}
