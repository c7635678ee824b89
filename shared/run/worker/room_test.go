package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// TestMapsWaitForQuota starts four runs with two maps of four instances each,
// in a workspace that may have five instances: two maps run at a time, the
// others wait and give the reason, and all runs end. Instances of a cancelled
// run do not count.
func TestMapsWaitForQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		cfg := w.c.Config
		cfg.Quota = quota.New(quota.Config{Table: w.table, Clock: clock.System{}, Values: quota.Values{quota.QueuedItems: 5}})
		w.c = worker.New(cfg)
		w.serve()
		w.ticking()
		w.lasting("each", time.Minute)
		w.lasting("more", time.Minute)
		w.register("f", with(spec("each", "more:each"), map[string]map[string]any{
			"each": {"map_over": "[1, 2, 3, 4]"}, "more": {"map_over": "[1, 2, 3, 4]"},
		}))
		items := func() int64 {
			n, err := runstate.CountItems(w.ctx, w.plain, org)
			require.NoError(t, err)
			return n
		}
		ids := []string{w.run("f").ID}
		time.Sleep(time.Second) // the first two have quota
		ids = append(ids, w.run("f").ID)
		time.Sleep(time.Second)
		for range 2 {
			ids = append(ids, w.run("f").ID)
		}
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 8, items(), "the second was let in whole, as there was room for one")
		for _, id := range ids[2:] {
			each := w.nodes(id)["each"]
			assert.Equal(t, engine.Queued, each.Status)
			assert.Equal(t, "The workspace has 8 unfinished instances of mapped tasks, and 4 more were asked for; at most 5 are allowed "+
				"(limit queued-map-items). Wait until some have ended or cancel some, or ask the operator to raise the limit.", each.Reason)
		}
		_, err := w.launch.Cancel(w.ctx, org, ids[0])
		require.NoError(t, err)
		w.wait(ids[0])
		assert.Contains(t, []int64{4, 8}, items(), "another one may have been let in")
		for _, id := range ids[1:] {
			assert.Equal(t, engine.Succeeded, w.wait(id).Status)
		}
		assert.Zero(t, items())
		assert.Equal(t, 12, w.times("more"), "each instance ran once")
		left, err := table.Count(w.ctx, w.plain, table.Query{Index: table.ByList, PK: org + "#m"})
		require.NoError(t, err)
		assert.Zero(t, left, "the cancelled run's entries were removed from the list")
	})
}
