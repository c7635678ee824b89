package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// TestReconciliationRepairsBesidesRunningMap checks that a reconciliation of a
// run with a running map also repairs a lost worker or a retry that is due.
func TestReconciliationRepairsBesidesRunningMap(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"worker lost", "retry due"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				w.lasting("each", 13*time.Minute)
				var again time.Time
				w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
					switch {
					case a.Number > 1:
						again = time.Now()
						return ok("1")
					case what == "worker lost":
						<-ctx.Done()
						return ok("0")
					}
					return executor.Failed(executor.TaskFailed, "once")
				})
				w.register("f", with(spec("a", "each"), map[string]map[string]any{
					"a": {"retries": 1, "retry_backoff": map[string]any{"delay_secs": 30}}, "each": {"map_over": "[1, 2]", "timeout_secs": 840},
				}))
				id := w.run("f").ID
				got, err := w.queues.Receive(w.ctx, events.Tasks("nano"), 10, 0)
				require.NoError(t, err)
				require.Len(t, got, 1)
				require.NoError(t, w.queues.Delete(w.ctx, events.Tasks("nano"), got[0].Receipt))
				// One worker has a and dies, or its message for the next attempt is lost.
				// The map continues in another.
				ctx, kill := context.WithCancel(w.ctx)
				defer kill()
				gone := w.hand("gone", func(cfg *worker.Config) { cfg.Queues = &tallied{Queues: w.queues, lose: 0} })
				ended := make(chan struct{})
				go func() {
					_ = gone.Handle(ctx, message(events.RunStart, id, 0), 1)
					close(ended)
				}()
				w.process("other")
				synctest.Wait()
				require.Equal(t, 2, w.times("each"))
				kill()
				<-ended
				died := time.Now()
				w.ticking()
				time.Sleep(5 * time.Minute)
				require.False(t, again.IsZero(), "nothing repaired it")
				assert.LessOrEqual(t, again.Sub(died), 90*time.Second+time.Minute)
				assert.Equal(t, engine.Succeeded, w.ends(id, 30*time.Minute).Status)
				assert.Equal(t, 2, w.times("a"))
				assert.Equal(t, 2, w.times("each"))
			})
		})
	}
}
