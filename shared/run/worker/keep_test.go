package worker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/pebbletable"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// TestItemsOfALongRunDoNotExpire has a run wait for longer than its items are
// kept, while expired items are removed: nothing of it is lost, and at its end
// nothing expires before its record.
func TestItemsOfALongRunDoNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const days, kept = 12, 2
		w := still(t)
		q := quota.New(quota.Config{Table: w.table, Clock: clock.System{}, Values: quota.Values{quota.RunDays: kept}})
		cfg := w.c.Config
		cfg.Quota, w.launch.Quota, w.logs.Quota = q, q, q
		w.c = worker.New(cfg)
		w.serve()
		w.register("f", fmt.Sprintf(`{"tasks":[{"name":"first","type":"transform","config":{"expression":"41"}},
			{"name":"nap","type":"wait","depends_on":["first"],"config":{"seconds":%d}},
			{"name":"last","type":"transform","depends_on":["nap"],"config":{"expression":"tasks.first.output + 1"}}]}`, days*24*60*60))
		id := w.run("f").ID
		for range 2 * days {
			time.Sleep(12*time.Hour + time.Minute)
			require.NoError(t, w.queues.Send(w.ctx, events.Runs, queue.Message{
				Body: fmt.Appendf(nil, `{"kind":"look","org_id":%q,"run_id":%q}`, org, id), Group: org,
			}))
			synctest.Wait()
			_, err := w.plain.(*pebbletable.Table).Sweep(w.ctx)
			require.NoError(t, err)
		}
		run := w.wait(id)
		require.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, "42", w.nodes(id)["last"].Output)
		assert.Equal(t, run.EndedAt.Time().AddDate(0, 0, kept).Unix(), run.Expires)
		for _, key := range []table.Key{
			runstate.InputKey(org, id), runstate.ArchiveKey(org, id), runstate.NodeKey(org, id, 0), runstate.NodeKey(org, id, 1), runstate.NodeKey(org, id, 2),
		} {
			item, err := w.plain.Get(w.ctx, key, table.Consistent)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, item[table.TTLAttribute].Int(), run.Expires, key)
		}
	})
}
