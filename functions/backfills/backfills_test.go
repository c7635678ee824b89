package backfills_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/setting"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.ask(hourly(2, 1)).Require(t, 200).String(t, "backfill_id")
	w.CheckAccess(t, "backfills-create", "/flows/daily/backfill", hourly(2, 1))
	w.CheckAccess(t, "backfills-list", "/backfills", nil)
	w.CheckAccess(t, "backfills-get", "/backfills/"+id, nil)
	w.CheckAccess(t, "backfills-cancel", "/backfills/"+id+"/cancel", nil)
	w.Do(t, w.B.Key, "GET", "/backfills/"+id, nil).Require(t, 404)
	w.Do(t, w.B.Key, "POST", "/backfills/"+id+"/cancel", nil).Require(t, 404)
	assert.Empty(t, w.Do(t, w.B.Key, "GET", "/backfills", nil).Require(t, 200).Items(t))
	for scopes, code := range map[string]int{
		"runs.trigger": 403, "flows.write": 403, "admin": 403, "runs.trigger flows.write": 200, "runs.trigger admin": 200,
	} {
		key := w.Key(t, w.A, strings.Fields(scopes)...)
		assert.Equal(t, code, w.Do(t, key, "POST", "/flows/daily/backfill", hourly(1, 1)).Code, scopes)
	}
}

func TestBackfillRunsEachInterval(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	before := w.AuditCount(t, w.A.OrgID)
	w.Clock.Advance(time.Second) // entries of one millisecond are in no order
	body := hourly(4, 2)
	body["parameters"] = object{"day": "x"}
	made := w.ask(body).Require(t, 200)
	id := made.String(t, "backfill_id")
	from, to := json.Number("1772323200"), json.Number("1772334000")
	all := made.Object(t)
	for _, varies := range []string{"created_at", "created_by", "updated_at", "updated_by", "intervals"} {
		assert.NotEmpty(t, all[varies], varies)
		delete(all, varies)
	}
	assert.Equal(t, object{
		"backfill_id": id, "flow_name": "daily", "flow_version": "1", "deployment": nil, "environment": nil, "execution_mode": nil,
		"status": "RUNNING", "total": json.Number("4"), "dispatched": json.Number("0"), "completed": json.Number("0"), "failed": json.Number("0"),
		"max_concurrency": json.Number("2"), "from_epoch": from, "to_epoch": to, "dry_run": false, "mode": "interval", "parameters": object{"day": "x"},
	}, all)
	assert.Equal(t, object{
		"index": json.Number("0"), "logical_epoch": from, "logical_at": "2026-03-01T00:00:00.000Z", "run_id": nil, "status": "PENDING", "reason": nil,
	}, made.Get(t, "intervals", 0))
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	entries := w.Audit(t, w.A.OrgID)
	assert.Equal(t, "backfill create", entries[len(entries)-1].ResourceType+" "+entries[len(entries)-1].Action)

	require.Equal(t, 1, w.begin())
	v := w.get(id)
	assert.Equal(t, "DDPP", v.states())
	run := w.Do(t, w.A.Key, "GET", "/runs/"+*v.Intervals[1].RunID, nil).Require(t, 200)
	assert.Equal(t, []string{"backfill", "backfill:" + id, "2026-03-01T01:00:00.000Z"},
		[]string{run.String(t, "trigger_source"), run.String(t, "triggered_by"), run.String(t, "logical_date")})
	assert.Equal(t, object{
		"day": "x", "ds": "2026-03-01", "data_interval_start": "2026-03-01T01:00:00+00:00", "logical_date": "2026-03-01T01:00:00+00:00",
	}, run.Get(t, "parameters"))

	w.end(*v.Intervals[1].RunID, engine.TimedOut)
	assert.Equal(t, "DDPP", w.get(id).states(), "the event has not come")
	require.Equal(t, 1, w.events())
	assert.Equal(t, "DFDP", w.get(id).states())
	w.end(*v.Intervals[0].RunID, engine.Succeeded)
	v = w.get(id)
	w.end(*v.Intervals[2].RunID, engine.Cancelled)
	require.Equal(t, 2, w.events())
	assert.Equal(t, "SFCD", w.get(id).states())
	v = w.get(id)
	w.end(*v.Intervals[3].RunID, engine.Succeeded)
	w.events()
	v = w.get(id)
	assert.Equal(t, "COMPLETED SFCS", v.Status+" "+v.states())
	assert.Len(t, w.runs(id), 4)
	assert.Equal(t, before+5, w.AuditCount(t, w.A.OrgID), "the backfill and its runs")
	assert.Equal(t, 409, w.Do(t, w.A.Key, "POST", "/backfills/"+id+"/cancel", nil).Code)
	assert.Zero(t, w.begin())
	w.Clock.Advance(3 * time.Minute)
	assert.Zero(t, w.tick(), "nothing of it is due")
}

// TestOwnValuesAreKept: the parameters that the service sets can be given.
func TestOwnValuesAreKept(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	body := hourly(2, 2)
	body["parameters"] = object{"ds": "mine"}
	for _, one := range w.get(w.create(body)).Intervals {
		run := w.Do(t, w.A.Key, "GET", "/runs/"+*one.RunID, nil).Require(t, 200)
		assert.Equal(t, "mine", run.Get(t, "parameters", "ds"))
		assert.Equal(t, strings.Replace(one.LogicalAt, ".000Z", "+00:00", 1), run.Get(t, "parameters", "logical_date"))
	}
}

func TestDryRunCreatesNothing(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	before := w.AuditCount(t, w.A.OrgID)
	body := hourly(3, 1)
	body["dry_run"] = true
	made := w.ask(body).Require(t, 200)
	var v view
	made.Into(t, &v)
	v.check(t)
	assert.Equal(t, []any{"DRY_RUN", true, "", nil}, []any{made.Get(t, "status"), made.Get(t, "dry_run"), made.Get(t, "backfill_id"), made.Get(t, "created_at")})
	assert.Equal(t, "PPP", v.states())
	assert.Empty(t, w.Do(t, w.A.Key, "GET", "/backfills", nil).Require(t, 200).Items(t))
	assert.Zero(t, w.begin())
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
}

func TestCancelStopsPendingIntervals(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create(hourly(5, 2))
	before := w.AuditCount(t, w.A.OrgID)
	cancel := func() view {
		var v view
		w.Do(t, w.A.Key, "POST", "/backfills/"+id+"/cancel", nil).Require(t, 200).Into(t, &v)
		return v
	}
	v := cancel()
	assert.Equal(t, "CANCELLED DDCCC", v.Status+" "+v.states())
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	v = cancel()
	assert.Equal(t, "CANCELLED DDCCC", v.Status+" "+v.states())
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID), "nothing was changed")
	w.end(*v.Intervals[0].RunID, engine.Succeeded)
	w.events()
	assert.Equal(t, "SDCCC", w.get(id).states())
	w.end(*v.Intervals[1].RunID, engine.Failed)
	w.events()
	v = w.get(id)
	assert.Equal(t, "CANCELLED SFCCC", v.Status+" "+v.states())
	assert.Len(t, w.runs(id), 2)
	w.Clock.Advance(3 * time.Minute)
	assert.Zero(t, w.tick())

	unbegun := w.ask(hourly(3, 1)).Require(t, 200).String(t, "backfill_id")
	w.Do(t, w.A.Key, "POST", "/backfills/"+unbegun+"/cancel", nil).Require(t, 200)
	w.begin()
	assert.Equal(t, "CCC", w.get(unbegun).states())
	assert.Empty(t, w.runs(unbegun))
	w.Do(t, w.A.Key, "POST", "/backfills/absent/cancel", nil).Require(t, 404)
}

// overtaken is a table on which something happens just before a backfill is
// written by itself.
type overtaken struct {
	table.Table
	by func() // nil: nothing
}

func (o *overtaken) Put(ctx context.Context, put table.Put) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Table.Put(ctx, put)
}

// TestStepDoesNotOverwriteACancel: the backfill is cancelled after a step has
// read it.
func TestStepDoesNotOverwriteACancel(t *testing.T) {
	t.Parallel()
	o := &overtaken{}
	w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table { o.Table = inner; return o }})
	id := w.ask(hourly(3, 1)).Require(t, 200).String(t, "backfill_id")
	cancelled := false
	o.by = func() {
		w.Do(t, w.A.Key, "POST", "/backfills/"+id+"/cancel", nil).Require(t, 200)
		cancelled = true
	}
	w.begin()
	require.True(t, cancelled, "a step was written")
	v := w.get(id)
	assert.Equal(t, "CANCELLED CCC", v.Status+" "+v.states())
	assert.Empty(t, w.runs(id))
}

// TestFailedIntervalHasTheErrorOfItsRun: in short, and only if it failed.
func TestFailedIntervalHasTheErrorOfItsRun(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create(hourly(5, 5))
	long := "The task one failed:\n" + strings.Repeat("é", 1000)
	for i, c := range []struct {
		status engine.Status
		why    string
	}{{engine.Failed, "division by zero"}, {engine.TimedOut, "The run passed its timeout_secs (5)."}, {engine.Cancelled, "stopped"}, {engine.Succeeded, ""}, {engine.Failed, long}} {
		w.endWith(*w.get(id).Intervals[i].RunID, c.status, c.why)
	}
	w.events()
	v := w.get(id)
	require.Equal(t, "COMPLETED FFCSF", v.Status+" "+v.states())
	for i, want := range []string{"division by zero", "The run passed its timeout_secs (5).", "", ""} {
		if want == "" {
			assert.Nil(t, v.Intervals[i].Reason)
			continue
		}
		require.NotNil(t, v.Intervals[i].Reason)
		assert.Equal(t, want, *v.Intervals[i].Reason)
	}
	short := *v.Intervals[4].Reason
	assert.True(t, strings.HasPrefix(short, "The task one failed: éé") && strings.HasSuffix(short, "é…"), short)
	assert.Less(t, len(short), 310)
}

// TestRefusedRunFailsItsInterval: the backfill goes on.
func TestRefusedRunFailsItsInterval(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create(hourly(3, 1))
	run := *w.get(id).Intervals[0].RunID
	w.Do(t, w.A.Key, "DELETE", "/flows/daily", nil).Require(t, 200)
	w.end(run, engine.Succeeded)
	w.events()
	v := w.get(id)
	assert.Equal(t, "COMPLETED SFF", v.Status+" "+v.states())
	for _, one := range v.Intervals[1:] {
		assert.Nil(t, one.RunID)
		require.NotNil(t, one.Reason)
		assert.Contains(t, *one.Reason, "daily")
	}
}

// TestLimitDelaysRuns: a run that a limit refuses is made later.
func TestLimitDelaysRuns(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"unfinished-runs=2"}})
	id := w.create(hourly(4, 4))
	v := w.get(id)
	assert.Equal(t, "RUNNING DDPP", v.Status+" "+v.states())
	w.end(*v.Intervals[0].RunID, engine.Succeeded)
	w.end(*v.Intervals[1].RunID, engine.Succeeded)
	w.Clock.Advance(time.Minute)
	w.tick()
	assert.Equal(t, "SSDD", w.get(id).states(), "the events were lost")
}

func TestListIsNewestFirst(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	var ids []string
	for range 3 {
		w.Clock.Advance(time.Second)
		ids = append([]string{w.ask(hourly(2, 1)).Require(t, 200).String(t, "backfill_id")}, ids...)
	}
	list := func(query string) (found []string) {
		for _, item := range w.Do(t, w.A.Key, "GET", "/backfills"+query, nil).Require(t, 200).Items(t) {
			assert.Empty(t, item.(object)["intervals"])
			assert.Equal(t, json.Number("2"), item.(object)["total"])
			found = append(found, item.(object)["backfill_id"].(string))
		}
		return found
	}
	assert.Equal(t, ids, list(""))
	assert.Equal(t, ids[:2], list("?limit=2"))
	for _, bad := range []string{"0", "501", "x"} {
		w.Do(t, w.A.Key, "GET", "/backfills?limit="+bad, nil).Require(t, 422)
	}
}

// TestSwitchedOff: the operations are unavailable, and no runs are made.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create(hourly(3, 1))
	run := *w.get(id).Intervals[0].RunID
	before := w.AuditCount(t, w.A.OrgID)
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: w.A.OrgID, Email: "operator"})
	for range 2 {
		require.NoError(t, setting.SwitchBackfills(ctx, w.Deps.Table, w.Clock.Now(), w.A.OrgID, false))
	}
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	for _, c := range []struct{ method, path string }{
		{"POST", "/flows/daily/backfill"}, {"GET", "/backfills"}, {"GET", "/backfills/" + id}, {"POST", "/backfills/" + id + "/cancel"},
	} {
		var body any
		if strings.HasPrefix(c.path, "/flows") {
			body = hourly(1, 1)
		}
		res := w.Do(t, w.A.Key, c.method, c.path, body)
		assert.Equal(t, 503, res.Code, "%s %s", c.method, c.path)
	}
	w.Do(t, w.B.Key, "GET", "/backfills", nil).Require(t, 200)
	w.end(run, engine.Succeeded)
	w.events()
	w.Clock.Advance(time.Minute)
	w.tick()
	assert.Len(t, w.runs(id), 1)
	require.NoError(t, setting.SwitchBackfills(ctx, w.Deps.Table, w.Clock.Now(), w.A.OrgID, true))
	assert.Equal(t, "SPP", w.get(id).states())
	w.Clock.Advance(time.Minute)
	w.tick()
	assert.Equal(t, "SDP", w.get(id).states())
	require.Error(t, setting.SwitchBackfills(ctx, w.Deps.Table, w.Clock.Now(), "org_absent", true))
}
