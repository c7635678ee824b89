package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
)

// preparing is scripted with tasks that call Begin themselves.
type preparing struct{ scripted }

func (preparing) Preparation() (time.Duration, bool) { return 10 * time.Minute, true }

func prepares(t *testing.T) *world {
	w := newWorld(t)
	w.c.Executors["python"] = preparing{scripted{w}}
	return w
}

// TestPreparationDoesNotCountAsTaskTime checks that an attempt has not started
// until the task's own code begins, and that neither its timeout nor its
// duration counts the time before.
func TestPreparationDoesNotCountAsTaskTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := prepares(t)
		begun, end := make(chan time.Time), make(chan struct{})
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
			time.Sleep(time.Minute)
			a.Begin(0)
			begun <- time.Now()
			<-end
			time.Sleep(8 * time.Second)
			return ok("1")
		})
		w.register("f", with(spec("a"), map[string]map[string]any{"a": {"timeout_secs": 10}}))
		id := w.run("f").ID
		time.Sleep(time.Second)
		item := w.nodes(id)["a"]
		assert.Equal(t, engine.Running, item.Status, "its lease lives")
		assert.Zero(t, item.StartedAt)
		assert.Contains(t, item.Reason, "interpreter")
		at := <-begun
		time.Sleep(time.Second)
		item = w.nodes(id)["a"]
		assert.Equal(t, clock.ToMillis(at), item.StartedAt, "it is told when it begins")
		assert.Empty(t, item.Reason)
		close(end)
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
		item = w.nodes(id)["a"]
		assert.Equal(t, clock.ToMillis(at), item.StartedAt)
		assert.Equal(t, clock.Millis(9000), item.EndedAt-item.StartedAt)
		assert.Empty(t, item.Reason)
	})
}

// TestTimeoutCountsFromBegin checks that a task is timed out from its begin,
// and that a task that never begins is ended too.
func TestTimeoutCountsFromBegin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		begins bool
		status engine.Status
		kind   string
		after  time.Duration
	}{
		{true, engine.TimedOut, executor.TaskTimeout, 42 * time.Second},
		{false, engine.Failed, executor.SandboxFailed, 10*time.Minute + 12*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := prepares(t)
			w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
				time.Sleep(30 * time.Second)
				if c.begins {
					a.Begin(0)
				}
				<-ctx.Done()
				return ok("1")
			})
			w.register("f", with(spec("a"), map[string]map[string]any{"a": {"timeout_secs": 10}}))
			began := time.Now()
			id := w.run("f").ID
			assert.Equal(t, c.status, w.wait(id).Status)
			assert.InDelta(t, c.after.Seconds(), time.Since(began).Seconds(), 1)
			assert.Equal(t, c.kind, w.nodes(id)["a"].ErrorType)
		})
	}
}

// TestTaskOf24Hours runs a task for far longer than the visibility time-out of
// its message: it runs once, keeps its lease, has its whole log, and the run
// continues after it.
func TestTaskOf24Hours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
			for hour := range 24 {
				a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: fmt.Sprintf("hour %d", hour)})
				time.Sleep(time.Hour - time.Second)
			}
			return ok("1")
		})
		w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 86_400}}))
		id := w.run("f").ID
		time.Sleep(23 * time.Hour)
		assert.Equal(t, engine.Running, w.status(id, "a"))
		time.Sleep(time.Hour)
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
		assert.Equal(t, 1, w.times("a"))
		assert.Equal(t, 1, w.nodes(id)["a"].Attempt)
		assert.Equal(t, 1, w.times("b"))
		page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
		require.NoError(t, err)
		assert.Equal(t, runlog.Archive, page.Source)
		hours := 0
		for _, raw := range page.Events {
			if jsonField(t, raw, "event_type") == runlog.TypeLog {
				assert.Equal(t, fmt.Sprintf("hour %d", hours), jsonField(t, raw, "message"))
				hours++
			}
		}
		assert.Equal(t, 24, hours)
	})
}
