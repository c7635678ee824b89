package runs_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// put stores a run that was created at a time.
func (w world) put(t *testing.T, at time.Time, change func(*runstate.Run)) string {
	t.Helper()
	id := ids.New(at)
	run := runstate.Run{
		Key: runstate.RunKey(w.A.OrgID, id), ListEntries: runstate.Lists(w.A.OrgID, "etl", "default", id),
		Org: w.A.OrgID, ID: id, Slug: ids.SlugOf(id), Flow: "etl", Version: "1", Environment: "default", Mode: "nano", Trigger: "manual",
		Status: engine.Succeeded, CreatedAt: clock.ToMillis(at),
	}
	change(&run)
	require.NoError(t, w.Deps.Table.Put(t.Context(), table.Put{Item: run}))
	return id
}

func TestRunListFilters(t *testing.T) {
	t.Parallel()
	w := idle(t)
	failed := w.put(t, epoch, func(r *runstate.Run) { r.Status, r.Deployment, r.By = engine.Failed, "prod", "ann@example.com" })
	nightly := w.put(t, epoch.Add(time.Second), func(r *runstate.Run) { r.Trigger, r.Deployment = "schedule", "prod" })
	keyed := w.put(t, epoch.Add(2*time.Second), func(r *runstate.Run) { r.By = "api-key:k1" })
	at := func(d time.Duration) string { return url.QueryEscape(epoch.Add(d).Format(time.RFC3339Nano)) }
	for query, want := range map[string][]string{
		"?status=FAILED":                                          {failed},
		"?status=SUCCEEDED":                                       {keyed, nightly},
		"?status=RUNNING":                                         {},
		"?deployment=prod":                                        {nightly, failed},
		"?deployment=prod&limit=1":                                {nightly},
		"?deployment=prod&status=FAILED":                          {failed},
		"?trigger_source=schedule":                                {nightly},
		"?triggered_by=ann%40example.com":                         {failed},
		"?triggered_by=api-key:k1":                                {keyed},
		"?until=" + at(time.Second):                               {nightly, failed},
		"?until=" + at(time.Second-time.Nanosecond):               {failed},
		"?until=" + at(-time.Millisecond):                         {},
		"?since=" + at(time.Second) + "&until=" + at(time.Second): {nightly},
		"?flow_name=etl&environment=default&status=FAILED":        {failed},
	} {
		assert.Equal(t, want, w.list(t, query), query)
	}
	for query, field := range map[string]string{
		"?status=failed": "status", "?trigger_source=hand": "trigger_source", "?until=soon": "until", "?deployment=%2F": "deployment",
		"?since=" + at(time.Second) + "&until=" + at(0): "until",
	} {
		res := w.Do(t, w.A.Key, "GET", "/runs"+query, nil).Require(t, 422)
		assert.Equal(t, []any{"query", field}, res.Get(t, "detail", 0, "loc"), query)
	}
}

// TestFilteredListStopsAndReturnsNextToken checks that a filter that matches
// few runs does not read the whole history.
func TestFilteredListStopsAndReturnsNextToken(t *testing.T) {
	t.Parallel()
	w := idle(t)
	oldest := w.put(t, epoch.Add(-time.Hour), func(r *runstate.Run) { r.Status = engine.Failed })
	all := w.history(t, 10_001)
	res := w.Do(t, w.A.Key, "GET", "/runs?status=FAILED", nil).Require(t, 200)
	assert.Empty(t, res.Items(t))
	until := res.String(t, "next_until")
	last, _ := ids.Time(all[10_000])
	assert.Equal(t, clock.Format(last), until, "the one that was not looked at")
	res = w.Do(t, w.A.Key, "GET", "/runs?status=FAILED&until="+until, nil).Require(t, 200)
	require.Len(t, res.Items(t), 1)
	assert.Equal(t, oldest, res.Get(t, "items", 0, "run_id"))
	assert.NotContains(t, string(res.Body), "next_until")
	assert.NotContains(t, string(w.Do(t, w.A.Key, "GET", "/runs?status=SUCCEEDED&limit=3", nil).Require(t, 200).Body), "next_until")
}

func TestRunIsFoundBySlug(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	w.flow(t, "bad", "1", tasks(transform("a", "1 / 0")))
	old := w.put(t, epoch.AddDate(-2, 0, 0), func(*runstate.Run) {})
	res := w.Do(t, w.A.Key, "GET", "/runs/"+ids.SlugOf(old)+"/logs", nil).Require(t, 200)
	assert.NotEmpty(t, res.String(t, "source"), "however old")
	d := w.finish(t, "bad", nil)
	assert.Equal(t, ids.SlugOf(d.RunID), d.RunSlug)
	one := "/runs/" + d.RunSlug
	assert.Equal(t, d.RunID, w.Do(t, w.A.Key, "GET", one, nil).Require(t, 200).String(t, "run_id"))
	w.Do(t, w.A.Key, "GET", one+"/logs", nil).Require(t, 200)
	w.Do(t, w.A.Key, "GET", one+"/tasks/a/output", nil).Require(t, 404)
	w.Do(t, w.A.Key, "POST", one+"/cancel", nil).Require(t, 400)
	for _, op := range []string{"/retry", "/retry-from-failed"} {
		assert.Equal(t, d.RunID, w.Do(t, w.A.Key, "POST", one+op, nil).Require(t, 200).String(t, "parent_run_id"))
	}
	same := w.Do(t, w.A.Key, "GET", "/runs/compare?run_a="+d.RunSlug+"&run_b="+d.RunID, nil).Require(t, 200)
	assert.Equal(t, d.RunID, same.Get(t, "run_a", "run_id"))

	w.Do(t, w.A.Key, "GET", "/runs/"+ids.SlugOf(ids.New(epoch)), nil).Require(t, 404)
	w.Do(t, w.B.Key, "GET", one, nil).Require(t, 404)
	for _, name := range []string{"x", "calm-amber-otter", "01K5"} {
		w.Do(t, w.A.Key, "GET", "/runs/"+name, nil).Require(t, 404)
	}
}

// TestAmbiguousSlug checks that two runs that were created at one instant and
// have the same slug are not confused.
func TestAmbiguousSlug(t *testing.T) {
	t.Parallel()
	w := idle(t)
	id := w.put(t, epoch, func(*runstate.Run) {})
	const round = 1 << 31 // milliseconds after which a slug recurs
	again := ids.First(epoch.Add(round * time.Millisecond))[:10] + id[10:]
	require.Equal(t, ids.SlugOf(id), ids.SlugOf(again))
	w.put(t, epoch, func(r *runstate.Run) {
		r.Key, r.ID, r.ListEntries = runstate.RunKey(w.A.OrgID, again), again, runstate.Lists(w.A.OrgID, "etl", "default", again)
	})
	res := w.Do(t, w.A.Key, "GET", "/runs/"+ids.SlugOf(id), nil).Require(t, 409)
	assert.Contains(t, res.String(t, "detail"), id)
	assert.Contains(t, res.String(t, "detail"), again)
}

func TestLogFilters(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	w.become(t, id, engine.Running)
	levels := []string{"debug", "info", "warning", "error", ""}
	start := clock.ToMillis(w.Clock.Now()).Time() // as in events
	for i := range 40 {
		w.Deps.Logs.Append(w.A.OrgID, id, runlog.Event{
			EventType: runlog.TypeLog, Message: fmt.Sprint(i), RunID: id, Timestamp: clock.ToMillis(w.Clock.Now()),
			TaskName: string(rune('a' + i%2)), Level: levels[i%5],
		})
		require.NoError(t, w.Deps.Logs.Flush(t.Context(), w.A.OrgID, id))
		w.Clock.Advance(time.Second)
	}
	w.Clock.Advance(time.Minute)
	read := func(query string, limit int) (out []string) {
		token := ""
		for range 100 {
			q := "/runs/" + id + "/logs?" + query + fmt.Sprint("&limit=", limit)
			if token != "" {
				q += "&next_token=" + token
			}
			var p logPage
			w.Do(t, w.A.Key, "GET", q, nil).Require(t, 200).Into(t, &p)
			assert.LessOrEqual(t, len(p.Events), limit)
			for _, e := range p.Events {
				out = append(out, e.Message)
			}
			if token = *p.NextToken; len(p.Events) == 0 {
				break
			}
		}
		return out
	}
	want := func(keep func(i int) bool) (out []string) {
		for i := range 40 {
			if keep(i) {
				out = append(out, fmt.Sprint(i))
			}
		}
		return out
	}
	for _, limit := range []int{1, 3, 500} {
		assert.Equal(t, want(func(i int) bool { return i%2 == 1 }), read("task_name=b", limit))
		assert.Equal(t, want(func(i int) bool { return i%5 == 2 || i%5 == 3 }), read("level=warning", limit))
		assert.Equal(t, want(func(i int) bool { return i%5 != 0 }), read("level=info", limit), "without a level it is info")
		since := url.QueryEscape(start.Add(30 * time.Second).Format(time.RFC3339Nano))
		assert.Equal(t, want(func(i int) bool { return i >= 30 }), read("since="+since, limit))
		assert.Equal(t, []string{"33"}, read("task_name=b&level=error&since="+since, limit))
		assert.Empty(t, read("task_name=none", limit))
	}
	for query, field := range map[string]string{"level=loud": "level", "since=soon": "since"} {
		res := w.Do(t, w.A.Key, "GET", "/runs/"+id+"/logs?"+query, nil).Require(t, 422)
		assert.Equal(t, []any{"query", field}, res.Get(t, "detail", 0, "loc"))
	}
}
