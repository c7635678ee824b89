package runs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/quota"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

const day = 24 * time.Hour

// kept returns a world with workers that keeps runs for 30 days.
func kept(t *testing.T) world {
	t.Helper()
	w := idle(t, localtest.Options{Config: fn.Config{LongLived: true}, Limits: []string{"plan=free"}})
	w.work(t)
	w.flow(t, "f", "1", object{
		"result": "${{ tasks.b.output }}",
		"tasks": []object{
			{"name": "a", "type": "transform", "config": object{"expression": "1"}},
			{"name": "b", "type": "transform", "depends_on": []string{"a"}, "config": object{"expression": "tasks.a.output + 1"}},
			{"name": "c", "type": "transform", "depends_on": []string{"a"}, "condition": "false", "config": object{"expression": "3"}},
			{"name": "d", "type": "transform", "depends_on": []string{"b", "c"}, "trigger_rule": "all_done", "config": object{"expression": "4"}},
		},
	})
	return w
}

func TestRunExpires(t *testing.T) {
	t.Parallel()
	w := kept(t)
	old := w.finish(t, "f", nil)
	require.Equal(t, "SUCCEEDED", old.Status)
	w.archived(t, old.RunID)
	w.Clock.Advance(29 * day)
	young := w.finish(t, "f", nil)
	assert.Equal(t, []string{young.RunID, old.RunID}, w.list(t, ""))

	w.Clock.Advance(day)
	for _, query := range []string{"", "?limit=10", "?flow_name=f", "?status=SUCCEEDED", "?environment=default"} {
		assert.Equal(t, []string{young.RunID}, w.list(t, query), query)
	}
	for path, method := range map[string]string{
		"": "GET", "/logs": "GET", "/tasks/a/output": "GET", "/result": "GET", "/cancel": "POST", "/retry": "POST", "/retry-from-failed": "POST",
	} {
		for _, name := range []string{old.RunID, old.RunSlug} {
			w.Do(t, w.A.Key, method, "/runs/"+name+path, nil).Require(t, 404)
		}
	}
	w.Do(t, w.A.Key, "GET", "/runs/compare?run_a="+old.RunID+"&run_b="+young.RunID, nil).Require(t, 404)
	assert.Equal(t, "SUCCEEDED", w.get(t, young.RunID).Status)
}

// archived waits until a run's record has its expiry.
func (w world) archived(t *testing.T, id string) (record runstate.Run) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		record, err = table.Load[runstate.Run](t.Context(), w.Deps.Table, runstate.RunKey(w.A.OrgID, id), table.Consistent)
		return err == nil && record.Expires != 0
	}, time.Minute, 5*time.Millisecond)
	return record
}

// Each item of a run expires, none before the record; also where the workspace has
// a retention of its own.
func TestAllItemsOfARunExpire(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"the deployment's": "", "the workspace's": "run-retention-days@%s=2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testAllItemsExpire(t, own)
		})
	}
}

func testAllItemsExpire(t *testing.T, own string) {
	t.Helper()
	w, days := kept(t), time.Duration(30)
	if own != "" {
		days = 2
		values, err := quota.ParseValues([]string{"plan=free", fmt.Sprintf(own, w.A.OrgID)})
		require.NoError(t, err)
		*w.Deps.Quota = *quota.New(quota.Config{Table: w.Deps.Table, Clock: w.Clock, Values: values}) // before its first use
	}
	id := w.finish(t, "f", nil).RunID
	record := w.archived(t, id)
	assert.Equal(t, record.EndedAt.Time().Add(days*day).Unix(), record.Expires)
	partitions := append(runstate.LogPartitions(w.A.OrgID, id), runstate.RunKey(w.A.OrgID, id).PK, runstate.NodePartition(w.A.OrgID, id, 0))
	seen := map[string]bool{}
	for _, pk := range partitions {
		for item, err := range table.All(t.Context(), w.Deps.Table, table.Query{PK: pk, Consistent: true}) {
			require.NoError(t, err)
			seen[item.Key().SK] = true
			expires := item[table.TTLAttribute].Int()
			assert.GreaterOrEqual(t, expires, record.Expires, item.Key())
			assert.LessOrEqual(t, expires, record.Expires+int64(runstate.Slack/time.Second), item.Key())
		}
	}
	for _, sk := range []string{"run", "input", "archive", "result", "000000000", "000000001", "000000002", "000000003"} {
		assert.True(t, seen[sk], sk)
	}
}

func TestLiveRunNeverExpires(t *testing.T) {
	t.Parallel()
	w := idle(t, localtest.Options{Limits: []string{"run-retention-days=1"}})
	w.flow(t, "f", "1", object{"tasks": []object{{"name": "a", "type": "transform", "config": object{"expression": "1"}}}})
	id := w.run(t, object{"flow_name": "f", "flow_version": "1"})
	w.Clock.Advance(400 * day)
	assert.Equal(t, "QUEUED", w.get(t, id).Status)
	assert.Equal(t, []string{id}, w.list(t, ""))
}

func TestUnlimitedRetention(t *testing.T) {
	t.Parallel()
	w := idle(t, localtest.Options{Config: fn.Config{LongLived: true}, Limits: []string{"plan=unlimited"}})
	w.work(t)
	w.flow(t, "f", "1", object{"tasks": []object{{"name": "a", "type": "transform", "config": object{"expression": "1"}}}})
	id := w.finish(t, "f", nil).RunID
	w.Clock.Advance(20 * 365 * day)
	assert.Equal(t, "SUCCEEDED", w.get(t, id).Status)
}
