package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// long registers a flow of a task that takes 13 of the 14 minutes allowed for a
// task.
func (w *world) long() {
	w.lasting("a", 13*time.Minute)
	w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 840}}))
}

// TestDuplicatesOfLongTask delivers duplicates while the task runs: it runs
// once, and none of them becomes a dead letter.
func TestDuplicatesOfLongTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ticking()
		w.long()
		id := w.run("f").ID
		for range 8 {
			synctest.Wait()
			body, err := json.Marshal(message(events.RunTask, id, 0))
			require.NoError(t, err)
			require.NoError(t, w.queues.Send(w.ctx, events.Tasks("nano"), queue.Message{Body: body, Group: org}))
			time.Sleep(90 * time.Second)
		}
		run := w.ends(id, 10*time.Minute)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, 1, w.times("a"))
		assert.Equal(t, 1, w.times("b"))
		assert.Less(t, run.Duration(), (14 * time.Minute).Milliseconds())
		assert.Zero(t, w.dead())
		assert.Zero(t, w.kept(), "no message waits for an ended run")
	})
}

// TestDuplicateIsDoneAtOnce checks that a message delivered while another
// worker runs its attempt is done at once.
func TestDuplicateIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.long()
		id := w.run("f").ID
		time.Sleep(time.Minute)
		for receives := 1; receives <= 3; receives++ {
			require.NoError(t, w.hand("other").Handle(w.ctx, message(events.RunTask, id, 0), receives))
		}
		assert.Equal(t, engine.Succeeded, w.ends(id, 15*time.Minute).Status)
		assert.Equal(t, 1, w.times("a"))
	})
}

// TestKillLeavesNoDeadLetter kills the embedded server while a long task runs.
// The next one, the sole process of the run, reconciles it before it serves.
func TestKillLeavesNoDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		sole := func(cfg *worker.Config) { cfg.Exclusive = true }
		w.lasting("a", 13*time.Minute)
		w.register("f", with(spec("first", "a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 840}})) // a has a message of its own
		id := w.run("f").ID
		killed := w.process("boot1", sole)
		time.Sleep(time.Minute)
		killed.kill()
		require.Equal(t, 1, w.times("a"))
		w.boot = "boot2"
		w.openQueues()
		w.load(slog.New(slog.DiscardHandler))
		require.NoError(t, w.c.Reconcile(w.ctx, org, id))
		w.serve()
		w.ticking()
		run := w.ends(id, 20*time.Minute)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, 2, w.times("a"))
		assert.Less(t, run.Duration(), (15 * time.Minute).Milliseconds(), "it began again at once")
		assert.Zero(t, w.dead())
		assert.Zero(t, w.kept())
	})
}

// TestDuplicateCollectsNothing checks that a duplicate message of a finished
// instance of a finished map costs next to no reads and writes.
func TestDuplicateCollectsNothing(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{1, 2} {
		t.Run(fmt.Sprint(receives), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				meter, o := &table.Meter{}, &objects{}
				w := newWorld(t, func(w *world) {
					o.Store, w.blob = w.blob, o
					w.wrap = func(inner table.Table) table.Table { return table.Metered(inner, meter) }
				})
				release := make(chan struct{})
				w.task("side", func(context.Context, *executor.Attempt) executor.Result {
					<-release
					return ok("1")
				})
				w.task("each", func(context.Context, *executor.Attempt) executor.Result {
					return ok(`"` + strings.Repeat("x", 4000) + `"`)
				})
				w.register("f", with(spec("each", "side", "sum: each"), map[string]map[string]any{"each": {"map_over": "lists.range(300)"}}))
				id := w.run("f").ID
				time.Sleep(time.Second)
				require.Equal(t, engine.Succeeded, w.status(id, "sum"))
				for _, index := range []int{0, 7, 299} {
					meter.Reset()
					puts := o.stored()
					require.NoError(t, w.hand("other").Handle(w.ctx, message(events.RunTask, id, w.instance(id, index)), receives))
					units := meter.Usage().Total()
					assert.Less(t, units.Read, 40.0, "read units")
					assert.Less(t, units.Write, 10.0, "write units")
					assert.Equal(t, puts, o.stored(), "no list is stored")
				}
				close(release)
				assert.Equal(t, engine.Succeeded, w.wait(id).Status)
				assert.Equal(t, 300, w.times("each"))
				assert.Equal(t, 1, w.times("sum"))
			})
		})
	}
}
