package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var discard = slog.New(slog.DiscardHandler)

func TestExecuteReturnsFinishedRun(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	for _, body := range []object{
		{"flow_name": "etl", "flow_version": "1"},
		{"flow_name": "etl", "flow_version": "1", "execute": false},
	} {
		res := w.Do(t, w.A.Key, "POST", "/runs", body).Require(t, 200)
		assert.Equal(t, "QUEUED", res.String(t, "status"), "answered at once")
		assert.NotContains(t, res.Object(t), "task_runs")
	}
	before := w.AuditCount(t, w.A.OrgID)
	d := w.finish(t, "etl", nil)
	assert.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, []string{"a#1 SUCCEEDED", "b#1 SUCCEEDED"}, brief(d.TaskRuns))
	assert.Equal(t, json.Number("42"), d.TaskRuns[1].Output)
	assert.Equal(t, d, w.get(t, d.RunID), "the same as the run's detail")
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	w.flow(t, "bad", "1", tasks(transform("a", "1 / 0")))
	assert.Equal(t, "FAILED", w.finish(t, "bad", nil).Status, "a failed run is no failed request")

	k := `{"flow_name":"etl","flow_version":"1","execute":true}`
	first, again := w.post(t, "k", k).Require(t, 200), w.post(t, "k", k).Require(t, 200)
	assert.Equal(t, first.String(t, "run_id"), again.String(t, "run_id"))
	assert.Equal(t, "SUCCEEDED", again.String(t, "status"))
}

func TestExecuteKeepsRequestOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := idle(t)
		w.flow(t, "etl", "1", chain)
		go func() { // the run is cancelled after 25 s
			time.Sleep(25 * time.Second)
			id := w.Do(t, w.A.Key, "GET", "/runs", nil).String(t, "items", 0, "run_id")
			w.Do(t, w.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200)
		}()
		start := time.Now()
		res := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execute": true}).Require(t, 200)
		assert.Equal(t, "CANCELLED", res.String(t, "status"))
		assert.Equal(t, "  {", string(res.Body[:3]), "a sign of life every 10 s")
		assert.Equal(t, 25*time.Second, time.Since(start), "it is told at once")
		assert.Equal(t, "application/json", res.Header.Get("Content-Type"))

		start = time.Now()
		res = w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execute": true}).Require(t, 200)
		assert.Equal(t, 14*time.Minute+30*time.Second, time.Since(start))
		assert.Equal(t, "QUEUED", res.String(t, "status"), "as it then is")
		assert.Len(t, res.Get(t, "task_runs"), 2)
		assert.GreaterOrEqual(t, bytes.Count(res.Body, []byte(" ")), 86)
	})
}

// TestExecuteReadsRunWithoutSignal ends a run in another process, which sends
// no signal.
func TestExecuteReadsRunWithoutSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := idle(t)
		w.flow(t, "etl", "1", chain)
		go func() {
			time.Sleep(time.Minute)
			id := w.Do(t, w.A.Key, "GET", "/runs", nil).String(t, "items", 0, "run_id")
			w.become(t, id, "SUCCEEDED")
		}()
		start := time.Now()
		w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execute": true}).Require(t, 200)
		assert.InDelta(t, 60, time.Since(start).Seconds(), 1)
	})
}

func TestRunContinuesAfterClientDisconnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := idle(t)
		w.flow(t, "etl", "1", chain)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		req := httptest.NewRequestWithContext(ctx, "POST", "/runs", strings.NewReader(`{"flow_name":"etl","flow_version":"1","execute":true}`))
		req.Header.Set("Authorization", "Bearer "+w.A.Key)
		rec := httptest.NewRecorder()
		start := time.Now()
		w.API.Handler().ServeHTTP(rec, req)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Empty(t, rec.Body.String())
		id := w.Do(t, w.A.Key, "GET", "/runs", nil).String(t, "items", 0, "run_id")
		assert.Equal(t, "QUEUED", w.get(t, id).Status)
		require.Len(t, w.get(t, id).TaskRuns, 2)
	})
}
