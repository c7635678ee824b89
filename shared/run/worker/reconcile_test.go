package worker_test

import (
	"context"
	"fmt"
	"log/slog"
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
)

// waiting returns the number of messages in the tier's queue that were not
// received.
func (w *world) waiting() int {
	stats, err := w.queues.Stats(w.ctx, events.Tasks("nano"))
	require.NoError(w.t, err)
	return stats.Visible + stats.Delayed
}

// wide starts a run of n parallel tasks, which end when release is closed, and
// lets the workers receive what they can.
func (w *world) wide(n int) (id string, release chan struct{}) {
	release = make(chan struct{})
	var tasks []string
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		tasks = append(tasks, name)
		w.task(name, func(ctx context.Context, _ *executor.Attempt) executor.Result {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ok("1")
		})
	}
	w.register("wide", spec(tasks...))
	id = w.run("wide").ID
	synctest.Wait()
	return id, release
}

// TestReconciliationsDoNotMultiplyMessages reconciles again and again a wide
// run that waits for workers, like a server that restarts again and again.
func TestReconciliationsDoNotMultiplyMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, release := w.wide(90)
		waiting := w.waiting()
		assert.Equal(t, 90-16, waiting, "all but what the workers have")
		for range 12 {
			require.NoError(t, w.c.Reconcile(w.ctx, org, id))
		}
		assert.Equal(t, waiting, w.waiting())
		close(release)
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
	})
}

// TestReconciliationsDoNotMultiplyWaits reconciles for hours a run that waits:
// the wait keeps one message, and its run is reconciled ever less often.
func TestReconciliationsDoNotMultiplyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("nap", `{"tasks":[{"name":"nap","type":"wait","config":{"seconds":20000}}]}`)
		id := w.run("nap").ID
		reconciliations := 0
		for range 300 { // minutes
			time.Sleep(time.Minute)
			if due := w.get(id).DueSK; due < fmt.Sprintf("%013d", time.Now().UnixMilli()) {
				reconciliations++
				require.NoError(t, w.queues.Send(w.ctx, events.Runs, queue.Message{
					Body: fmt.Appendf(nil, `{"kind":"look","org_id":%q,"run_id":%q}`, org, id), Group: org,
				}))
				synctest.Wait()
			}
		}
		assert.LessOrEqual(t, w.waiting(), 1)
		assert.InDelta(t, 32, reconciliations, 6, "one in ten minutes, after a while")
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
	})
}

// TestLostMessageIsSentAgain loses the messages of tasks that were ready.
func TestLostMessageIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("f", spec("a", "b: a", "c: a", "d: b c"))
		began := make(chan struct{})
		go1 := make(chan struct{})
		w.task("a", func(context.Context, *executor.Attempt) executor.Result {
			close(began)
			<-go1
			return ok("1")
		})
		hold := make(chan struct{})
		w.task("b", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return ok("1")
		})
		id := w.run("f").ID
		<-began
		// The one message sent at the end of a is removed.
		w.rt.Stop(stopped(t, go1))
		w.steal()
		close(hold)
		w.boot = "boot2"
		w.start(slog.Default())
		for range 5 {
			time.Sleep(2 * time.Minute)
			require.NoError(t, w.queues.Send(w.ctx, events.Runs, queue.Message{
				Body: fmt.Appendf(nil, `{"kind":"look","org_id":%q,"run_id":%q}`, org, id), Group: org,
			}))
			synctest.Wait()
		}
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
	})
}

// steal removes the messages that wait in the tier's queue.
func (w *world) steal() {
	got, err := w.queues.Receive(w.ctx, events.Tasks("nano"), 10, 0)
	require.NoError(w.t, err)
	for _, m := range got {
		require.NoError(w.t, w.queues.Delete(w.ctx, events.Tasks("nano"), m.Receipt))
	}
}

// TestReconciliationEndsRunAfterOnFailure loses the message whose worker died
// between the end of the on_failure task and that of the run.
func TestReconciliationEndsRunAfterOnFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{}
		w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
		w.task("a", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Final(executor.TaskFailed, "as written")
		})
		paged, died := make(chan struct{}), make(chan struct{})
		w.task("page", func(context.Context, *executor.Attempt) executor.Result {
			close(paged)
			return ok("1")
		})
		w.register("f", `{"tasks":[{"name":"a","type":"python","entrypoint":"m:f"}],"on_failure":{"name":"page","type":"python","entrypoint":"m:f"}}`)
		since := 0
		f.arm(func(int) (before, after bool) {
			select {
			case <-paged:
				if since++; since == 2 { // the first update records that the task has ended
					close(died)
				}
				return since >= 2, false
			default:
				return false, false
			}
		})
		id := w.run("f").ID
		<-died
		w.kill()
		f.disarm()
		w.openQueues() // messages in flight become visible
		w.steal()
		require.Equal(t, engine.Succeeded, w.status(id, "page"))
		require.Equal(t, engine.Running, w.get(id).Status)
		w.boot = "boot2"
		w.start(slog.Default())
		require.NoError(t, w.c.Reconcile(w.ctx, org, id))
		synctest.Wait()
		assert.Equal(t, engine.Failed, w.get(id).Status)
		assert.Equal(t, 1, w.times("page"))
	})
}

// stopped returns a context that ends shortly after the gate opens.
func stopped(t *testing.T, gate chan struct{}) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	close(gate)
	return ctx
}
