package worker_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

const nap = `{"tasks":[{"name":"nap","type":"wait","config":{"seconds":7200}},{"name":"after","type":"python","entrypoint":"m:f","depends_on":["nap"]}]}`

// TestWaitSurvivesLostWorkers kills a process in the middle of a wait, and
// loses all messages; then it kills workers that resume the wait when its time
// has come, before they end it. The wait does not begin again.
func TestWaitSurvivesLostWorkers(t *testing.T) {
	t.Parallel()
	for _, losses := range []int{0, 1, 3} {
		t.Run(itoa(losses), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				w.ticking()
				w.register("f", nap)
				id := w.run("f").ID
				first := w.process("first")
				time.Sleep(time.Hour)
				first.kill()
				w.queues = memory.Queues(t, clock.System{}, fixture.Queues(visibility))
				for i := range losses {
					died := make(chan struct{})
					m := &mortal{died: died, fatal: func(u table.Update, item table.Item) bool {
						var n runstate.Node
						return u.Key == runstate.NodeKey(org, id, 0) && table.Unmarshal(item, &n) == nil && n.Suspended && n.Nonce != ""
					}}
					p := w.process("boot"+itoa(i), func(cfg *worker.Config) {
						m.Table = cfg.Table
						cfg.Table = m
						cfg.Log = slog.New(slog.DiscardHandler)
					})
					select {
					case <-died:
					case <-time.After(3 * time.Hour):
						require.Fail(t, "no worker resumed the wait")
					}
					p.kill()
				}
				w.process("last")
				run := w.ends(id, 5*time.Hour)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.GreaterOrEqual(t, run.Duration(), int64(7200*1000))
				assert.LessOrEqual(t, run.Duration(), int64((7200+150*(losses+1))*1000))
				assert.Equal(t, 1, w.times("after"))
				assert.Equal(t, losses, w.nodes(id)["nap"].Lost)
				assert.Equal(t, `{"waited_seconds":7200}`, w.nodes(id)["nap"].Output)
			})
		})
	}
}
