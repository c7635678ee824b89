package worker_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/worker"
)

// usurp lets another worker take over an attempt of a run's first node.
func (w *world) usurp(id string) {
	_, err := w.plain.Update(w.ctx, table.Update{
		Key: runstate.NodeKey(org, id, 0), Do: []table.Action{table.Set(runstate.NodeNonce, "another's")},
	})
	require.NoError(w.t, err)
}

// TestLogOfLostAttempt loses the lease of an attempt in a process that never
// resumes after the message: its lines are in the log.
func TestLogOfLostAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		var id string
		w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
			w.usurp(id)
			<-ctx.Done()
			a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: "last words"})
			return ok("1")
		})
		w.register("f", with(spec("a"), map[string]map[string]any{"a": {"timeout_secs": 600}}))
		id = w.run("f").ID
		p := faults.NewPlan(t, 1, faults.Rates{}, w.plain, clock.System{}).Process("one", nil)
		one := w.hand("one", func(cfg *worker.Config) { cfg.Table = p.Table() }, w.frozen)
		require.NoError(t, one.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		p.Kill()
		time.Sleep(time.Minute)
		page, err := w.logs.Page(w.ctx, org, id, false, "", runlog.MaxLimit)
		require.NoError(t, err)
		var lines []string
		for _, raw := range page.Events {
			lines = append(lines, jsonField(t, raw, "message"))
		}
		assert.Contains(t, lines, "last words")
	})
}

// TestLostAttemptPassesOnNothing lets a process whose clock is ahead take over
// an attempt just before its end is written. The first process passes on the
// result of the other.
func TestLostAttemptPassesOnNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result { return ok(itoa(a.Number)) })
		var read string
		w.task("b", func(ctx context.Context, a *executor.Attempt) executor.Result {
			out, err := a.Output(ctx, "a")
			assert.NoError(t, err)
			read = string(out.JSON)
			return ok("null")
		})
		w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": {"timeout_secs": 600}}))
		id := w.run("f").ID
		ahead := clock.Func(func() time.Time { return time.Now().Add(worker.Lease + time.Second) })
		two := w.hand("two", w.frozen, func(cfg *worker.Config) { cfg.Clock = ahead })
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute) // too short for b
		defer cancel()
		var taken sync.Once
		one := w.hand("one", w.frozen, func(cfg *worker.Config) {
			cfg.Table = &unwritable{Table: w.plain, fails: func(_ context.Context, u table.Update) error {
				if finishes(u) {
					taken.Do(func() { assert.NoError(t, two.Handle(ctx, message(events.RunTask, id, 0), 1)) })
				}
				return nil
			}}
		})
		require.NoError(t, one.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		require.Equal(t, 2, w.nodes(id)["a"].Attempt)
		require.Zero(t, w.times("b"))
		require.NoError(t, one.Handle(w.ctx, message(events.RunTask, id, 1), 1))
		assert.Equal(t, "2", read)
	})
}

// TestTheLogTellsOfALeaseThatWasTakenOver: the attempt that was lost has an event of
// its own, before what the next one did.
func TestTheLogTellsOfALeaseThatWasTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		var id string
		var two handed
		w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
			if a.Number == 1 { // its process stands still until its lease has run out
				assert.NoError(t, two.Handle(w.ctx, message(events.RunTask, id, 0), 1))
			}
			return ok(itoa(a.Number))
		})
		w.register("f", spec("a"))
		id = w.run("f").ID
		ahead := clock.Func(func() time.Time { return time.Now().Add(worker.Lease + time.Second) })
		two = w.hand("two", w.frozen, func(cfg *worker.Config) { cfg.Clock = ahead })
		one := w.hand("one", w.frozen)
		require.NoError(t, one.Handle(w.ctx, message(events.RunStart, id, 0), 1))
		require.Equal(t, engine.Succeeded, w.wait(id).Status)
		var lost []runlog.Event
		told := map[string]int{} // events of the second attempt
		page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
		require.NoError(t, err)
		for _, raw := range page.Events {
			var e runlog.Event
			require.NoError(t, json.Unmarshal(raw, &e))
			switch {
			case e.EventType == runlog.TypeTaskLost:
				lost = append(lost, e)
			case e.Attempt == 2:
				told[e.EventType]++
				assert.Len(t, lost, 1, e.EventType)
			}
		}
		require.Len(t, lost, 1)
		assert.Equal(t, runlog.Event{
			EventType: runlog.TypeTaskLost, Level: "warning", Message: "The worker that ran this attempt was lost.", Timestamp: lost[0].Timestamp,
			RunID: id, TaskName: "a", Attempt: 1, TaskRunID: runstate.TaskRunID(id, 0, 1), Logger: lost[0].Logger, Sequence: lost[0].Sequence,
		}, lost[0])
		assert.Equal(t, 1, told[runlog.TypeTaskSucceeded])
	})
}
