package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// kept returns the number of messages in the tier's queue, including received
// ones.
func (w *world) kept() int {
	stats, err := w.queues.Stats(w.ctx, events.Tasks("nano"))
	require.NoError(w.t, err)
	return stats.Visible + stats.Delayed + stats.InFlight
}

// TestRestartsDoNotMultiplyMessages kills a server again and again while a wide
// run waits for workers.
func TestRestartsDoNotMultiplyMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, release := w.wide(90)
		for i := range 4 {
			killed, cancel := context.WithCancel(w.ctx)
			cancel()
			w.rt.Stop(killed)
			w.boot = fmt.Sprintf("again%d", i)
			w.openQueues()
			w.start(slog.New(slog.DiscardHandler))
			synctest.Wait()
			assert.LessOrEqual(t, w.kept(), 90)
		}
		close(release)
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
	})
}

// counted counts sent messages.
type counted struct {
	queue.Queues
	sent *int
}

func (c counted) Send(ctx context.Context, to string, msgs ...queue.Message) error {
	*c.sent += len(msgs)
	return c.Queues.Send(ctx, to, msgs...)
}

// TestLongChainTakesSeveralMessages checks that a chain is run with one message
// for every MaxInline tasks, so that a redelivered message repeats a bounded
// amount of work.
func TestLongChainTakesSeveralMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sent := 0
		w.rt.Stop(w.ctx)
		w.queues = counted{w.queues, &sent}
		w.start(slog.New(slog.DiscardHandler))
		tasks := []string{"t0"}
		for i := 1; i < 2*worker.MaxInline+10; i++ {
			tasks = append(tasks, fmt.Sprintf("t%d: t%d", i, i-1))
		}
		w.register("chain", spec(tasks...))
		assert.Equal(t, engine.Succeeded, w.wait(w.run("chain").ID).Status)
		assert.Equal(t, 2, sent, "the start's message is the launcher's")
	})
}

// TestUnitsOfSkippedDependents checks that a dependent of a failed task costs
// one write, and its share of those to joins.
func TestUnitsOfSkippedDependents(t *testing.T) {
	t.Parallel()
	tasks := []string{"root"}
	for i := range 95 {
		tasks = append(tasks, fmt.Sprintf("p%d: root", i))
	}
	accept, write, _ := costOf(t, engine.Failed, func(w *world) {
		w.task("root", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Final(executor.TaskFailed, "on purpose")
		})
	}, spec(tasks...))
	t.Logf("95 tasks left out: %v write units", write-accept)
	assert.LessOrEqual(t, (write-accept)/95, 1.5)
}
