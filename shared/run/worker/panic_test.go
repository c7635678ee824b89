package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// panicking is a table that panics when an item is read.
type panicking struct {
	table.Table
	key table.Key
}

func (p *panicking) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if key == p.key {
		panic("a mistake in a driver")
	}
	return p.Table.Get(ctx, key, opts...)
}

// TestPanicFailsOnlyItsMessage checks that the other messages of the batch are
// handled.
func TestPanicFailsOnlyItsMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.lasting("a", time.Second)
		w.register("f", spec("a", "b: a"))
		var msgs []events.Run
		for range 4 {
			msgs = append(msgs, message(events.RunStart, w.run("f").ID, 0))
		}
		bad := msgs[1].Run
		c := w.hand("one", func(cfg *worker.Config) { cfg.Table = &panicking{w.plain, runstate.RunKey(org, bad)} })
		out, err := c.Messages(w.ctx, batch(1, msgs...))
		require.NoError(t, err)
		require.Len(t, out.BatchItemFailures, 1)
		assert.Equal(t, "1", out.BatchItemFailures[0].ItemIdentifier)
		for _, m := range msgs {
			want := engine.Succeeded
			if m.Run == bad {
				want = engine.Queued
			}
			assert.Equal(t, want, w.get(m.Run).Status)
		}
		// A batch of one is handled likewise.
		require.ErrorIs(t, c.Handle(w.ctx, msgs[1], 2), errAgain)
	})
}

// TestPanicEndsOnlyItsAttempt checks that a panic of an executor fails the
// attempt, that the task is retried, and that others are not affected.
func TestPanicEndsOnlyItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.task("bad", func(_ context.Context, a *executor.Attempt) executor.Result {
			if a.Number == 1 {
				panic("a mistake in an executor")
			}
			return ok("1")
		})
		w.lasting("good", 10*time.Second)
		w.register("retried", with(spec("bad", "after: bad"), map[string]map[string]any{"bad": {"retries": 1, "retry_backoff": map[string]any{"delay_secs": 1}}}))
		w.register("final", spec("bad", "after: bad"))
		w.register("good", spec("good"))
		var ids []string
		var msgs []events.Run
		for _, flow := range []string{"retried", "final", "good"} {
			ids = append(ids, w.run(flow).ID)
			msgs = append(msgs, message(events.RunStart, ids[len(ids)-1], 0))
		}
		out, err := w.hand("one").Messages(w.ctx, batch(1, msgs...))
		require.NoError(t, err)
		assert.Empty(t, out.BatchItemFailures)
		assert.Equal(t, engine.Succeeded, w.get(ids[2]).Status)

		w.process("rest")
		w.ticking()
		assert.Equal(t, engine.Succeeded, w.ends(ids[0], time.Minute).Status)
		item := w.nodes(ids[0])["bad"]
		assert.Zero(t, item.Lost)
		assert.Equal(t, 2, item.Attempt)
		require.Len(t, item.History, 1)
		assert.Equal(t, engine.Failed, item.History[0].Status)
		assert.NotEmpty(t, item.History[0].Error)

		assert.Equal(t, engine.Failed, w.ends(ids[1], time.Minute).Status)
		item = w.nodes(ids[1])["bad"]
		assert.Equal(t, engine.Failed, item.Status)
		assert.NotEqual(t, executor.WorkerLost, item.ErrorType)
		assert.Equal(t, engine.UpstreamFailed, w.status(ids[1], "after"))
		assert.Equal(t, 3, w.times("bad"), "two attempts in one run, one in the other")
	})
}
