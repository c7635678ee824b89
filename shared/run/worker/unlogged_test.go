package worker_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
	"millrace/shared/run/worker"
)

// starts returns the times of the starts of attempts in the log of an ended run.
func (w *world) starts(id string) (out []time.Time) {
	page, err := w.logs.Page(w.ctx, org, id, true, "", 1000)
	require.NoError(w.t, err)
	for _, raw := range page.Events {
		var e struct {
			Type string    `json:"event_type"`
			At   time.Time `json:"timestamp"`
		}
		require.NoError(w.t, json.Unmarshal(raw, &e))
		if e.Type == runlog.TypeTaskStarted {
			out = append(out, e.At)
		}
	}
	return out
}

// TestStartOfRunnerIsLoggedOnce: beginning an attempt stores no log. Whatever is
// logged of it first is preceded by its start, with the time at which it began.
func TestStartOfRunnerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	type runner struct {
		*world
		r   *remotes
		own worker.Runner
	}
	answer := func(w *runner, a answered) {
		a.Attempt = w.own.Attempt.Run + "-0-1"
		body, err := json.Marshal(a)
		require.NoError(w.t, err)
		require.NoError(w.t, w.r.any().Complete(w.ctx, w.own, body))
	}
	announce := func(w *runner) bool { return w.r.announce(w.own) }
	for name, c := range map[string]struct {
		do   func(w *runner)
		want []string // between the run's start and end
	}{
		"it ends":   {func(w *runner) { answer(w, answered{}); answer(w, answered{}) }, []string{"a task_started", "a task_succeeded"}},
		"it fails":  {func(w *runner) { w.r.fails["a"] = 1; answer(w, answered{Fails: true}) }, []string{"a task_started", "a task_failed"}},
		"it posts":  {func(w *runner) { assert.True(w.t, announce(w)); answer(w, answered{}) }, []string{"a task_started", "a task_succeeded"}},
		"two posts": {func(w *runner) { assert.True(w.t, announce(w)); assert.False(w.t, announce(w)); answer(w, answered{}) }, []string{"a task_started", "a task_succeeded"}},
		"its post is lost": {func(w *runner) { // with the process that took it
			_, ok := w.r.any().Start(w.own, w.nodes(w.own.Attempt.Run)["a"])
			assert.True(w.t, ok)
			answer(w, answered{})
		}, []string{"a task_started", "a task_succeeded"}},
		"a post of another": {func(w *runner) {
			mine := w.own
			w.own.ID = "other"
			assert.False(w.t, announce(w))
			w.own = mine
			answer(w, answered{})
		}, []string{"a task_started", "a task_succeeded"}},
		"it dies": {func(w *runner) { w.ticking() }, []string{"a task_started", "a task_lost", "a task_started", "a task_succeeded"}},
		"it dies after a post": {func(w *runner) { assert.True(w.t, announce(w)); w.ticking() },
			[]string{"a task_started", "a task_lost", "a task_started", "a task_succeeded"}},
		"it cannot start the task": {func(w *runner) { answer(w, answered{Unstarted: "no memory"}) },
			[]string{"a task_started", "a task_deferred", "a task_succeeded"}},
		"its run is cancelled": {func(w *runner) {
			_, err := w.launch.Cancel(w.ctx, org, w.own.Attempt.Run)
			require.NoError(w.t, err)
			answer(w, answered{})
		}, []string{"a task_started", "a task_cancelled"}},
		"its run is cancelled and it dies": {func(w *runner) {
			_, err := w.launch.Cancel(w.ctx, org, w.own.Attempt.Run)
			require.NoError(w.t, err)
			w.ticking()
		}, []string{"a task_started", "a task_cancelled"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, r := remote(t, 1, remoteOdds{})
			token := begun(t, w, r)
			own := worker.Runner{Attempt: token, ID: "own"}
			began := time.Now()
			for range 2 { // the first answer is lost
				_, err := r.any().Begin(w.ctx, own)
				require.NoError(t, err)
			}
			page, err := w.logs.Page(w.ctx, org, token.Run, true, "", 100)
			require.NoError(t, err)
			for _, raw := range page.Events {
				assert.NotContains(t, string(raw), "task_started", name)
			}
			time.Sleep(2 * time.Second)
			c.do(&runner{w, r, own})
			w.ends(token.Run, 10*time.Minute)
			got := w.archived(token.Run)
			assert.Equal(t, c.want, got[1:len(got)-1], name)
			assert.WithinDuration(t, began, w.starts(token.Run)[0], time.Millisecond, name)
			assert.Empty(t, r.problems)
		})
	}
}

// TestStartOfHandedOnAttemptIsLogged also when its runner dies at once.
func TestStartOfHandedOnAttemptIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{Die: 1})
		r.left, r.fated = 15*time.Minute, "b"
		r.serves("one", faults.Rates{}, 1)
		w.ticking()
		w.register("f", spec("a", "b: a"))
		id := w.run("f").ID
		require.Eventually(t, func() bool { return w.nodes(id)["b"] != nil && w.nodes(id)["b"].Lost == 1 }, 10*time.Minute, time.Second)
		r.mu.Lock()
		r.odds = remoteOdds{}
		r.mu.Unlock()
		require.Equal(t, engine.Succeeded, w.ends(id, 10*time.Minute).Status)
		got := w.archived(id)
		assert.Equal(t, []string{"b task_started", "b task_lost", "b task_started"}, got[3:6])
		assert.Empty(t, r.problems)
	})
}
