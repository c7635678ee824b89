package worker_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/worker"
)

// TestRunnerMakesAChain lets a runner that has time make all tasks of a chain.
func TestRunnerMakesAChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{Resend: .5})
		r.left = 15 * time.Minute
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a", "b: a", "c: b", "d: c"))
		id := w.run("f").ID
		require.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
		assert.Equal(t, 1, r.runners)
		assert.Equal(t, 3, r.told["hand on"])
		assert.Empty(t, r.problems)
		for name, item := range w.nodes(id) {
			assert.Equal(t, 1, item.Attempt, name)
			assert.Zero(t, item.Lost, name)
		}
		assert.Equal(t, []string{
			" run_started", "a task_started", "a task_succeeded", "b task_started", "b task_succeeded",
			"c task_started", "c task_succeeded", "d task_started", "d task_succeeded", " run_finished",
		}, w.archived(id))
	})
}

// TestOnlyFittingAttemptsAreHandedOn has ready tasks that the runner cannot
// make: they get runners of their own.
func TestOnlyFittingAttemptsAreHandedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  time.Duration
		b     map[string]any
		wants int
	}{
		"it fits":         {100 * time.Second, map[string]any{"timeout_secs": 10}, 1},
		"too little time": {99 * time.Second, map[string]any{"timeout_secs": 10}, 0},
		"another tier":    {15 * time.Minute, map[string]any{"tier": "small"}, 0},
		"no time":         {0, map[string]any{"timeout_secs": 10}, 0},
		"skipped":         {15 * time.Minute, map[string]any{"condition": "false"}, 0},
		"a map":           {15 * time.Minute, map[string]any{"map_over": "[1]"}, 1}, // its instance, when it was expanded
	} {
		synctest.Test(t, func(t *testing.T) {
			w, r := remote(t, 1, remoteOdds{})
			r.left = c.left
			r.serves("one", faults.Rates{}, 1)
			w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"b": c.b}))
			require.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, time.Minute).Status, name)
			assert.Equal(t, c.wants, r.told["hand on"], name)
			assert.Empty(t, r.problems, name)
		})
	}
}

// TestHandedOnAttemptIsLeased checks what others find of an attempt that was
// handed on: it is the runner's, also when the answer was lost, and another's
// when its lease is over.
func TestHandedOnAttemptIsLeased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.vanish = 1
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a", "b: a"))
		id := w.run("f").ID
		time.Sleep(10 * time.Second)
		c, own := r.any(), worker.Runner{Attempt: ticket.Attempt{Org: org, Run: id, Node: 0, Number: 1, Task: "a", Nonce: w.nodes(id)["a"].Handed}, ID: "own"}
		_, err := c.Begin(w.ctx, own)
		require.NoError(t, err)
		answer, err := json.Marshal(answered{Attempt: id + "-0-1"})
		require.NoError(t, err)
		first, err := c.Continue(w.ctx, own, answer, 15*time.Minute)
		require.NoError(t, err)
		require.NotNil(t, first)
		again, err := c.Continue(w.ctx, own, answer, 15*time.Minute)
		require.NoError(t, err)
		require.NotNil(t, again)
		assert.Equal(t, first.Attempt.Nonce, again.Attempt.Nonce)

		next := worker.Runner{Attempt: first.Attempt, ID: "own"}
		other := worker.Runner{Attempt: first.Attempt, ID: "other"}
		_, err = c.Begin(w.ctx, other)
		assert.Equal(t, errs.Conflict, errs.CodeOf(err))
		stop, err := c.Renew(w.ctx, other)
		require.NoError(t, err)
		assert.True(t, stop)
		stop, err = c.Renew(w.ctx, next)
		require.NoError(t, err)
		assert.False(t, stop)
		w.ticking()
		assert.Equal(t, engine.Succeeded, w.ends(id, 10*time.Minute).Status, "its runner is gone")
		item := w.nodes(id)["b"]
		assert.Equal(t, 2, item.Attempt)
		assert.Equal(t, 1, item.Lost, "which is no retry")
		stop, err = c.Renew(w.ctx, next)
		require.NoError(t, err)
		assert.True(t, stop)
		assert.Empty(t, r.problems)
	})
}
