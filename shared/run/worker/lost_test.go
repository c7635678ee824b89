package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/worker"
)

// TestLostAnswerIsNoRetry lets the executor lose sight of attempts: others take
// their place on a budget of their own, each only after its predecessor has had
// time to stop.
func TestLostAnswerIsNoRetry(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 3, worker.MaxLost} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var began []time.Time
				w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
					began = append(began, time.Now())
					if len(began) <= lost {
						time.Sleep(time.Second)
						return executor.OutOfSight(errors.New("the connection was cut"))
					}
					if a.Number == lost+1 { // the first that may fail
						return executor.Failed(executor.TaskFailed, "a mistake")
					}
					return ok("1")
				})
				w.register("f", with(spec("a"), map[string]map[string]any{"a": {"retries": 1}}))
				id := w.run("f").ID
				if lost == 1 {
					time.Sleep(5 * time.Second)
					item := w.nodes(id)["a"]
					assert.Equal(t, engine.Queued, item.Status)
					assert.Zero(t, item.LeaseUntil)
					assert.Contains(t, item.Reason, "the connection was cut", "readers see why it waits")
				}
				run, item := w.wait(id), w.nodes(id)["a"]
				assert.Equal(t, lost, item.Lost)
				for i := 1; i < min(lost+1, len(began)); i++ {
					assert.GreaterOrEqual(t, began[i].Sub(began[i-1]), 15*time.Second, "the one before may still run")
					assert.LessOrEqual(t, began[i].Sub(began[i-1]), worker.HoldBack+2*time.Second)
				}
				if lost == worker.MaxLost {
					assert.Equal(t, engine.Failed, run.Status)
					assert.Equal(t, executor.WorkerLost, item.ErrorType)
					assert.Contains(t, item.Error, "10 times")
					assert.Len(t, began, worker.MaxLost)
					return
				}
				assert.Equal(t, engine.Succeeded, run.Status, "its own failure had its retry")
				assert.Equal(t, lost+2, item.Attempt)
				assert.Len(t, item.History, lost+1)
				told := 0
				for _, e := range w.archived(id) {
					if e == "a "+runlog.TypeTaskLost {
						told++
					}
				}
				assert.Equal(t, lost, told)
			})
		})
	}
}

// TestReleasedAttemptsSpread releases many attempts at once: they do not come
// back at once.
func TestReleasedAttemptsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const width = 64
		first := make(map[time.Duration]int)
		refused := map[int]bool{}
		var began time.Time
		w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !refused[*a.MapIndex] {
				refused[*a.MapIndex] = true
				return executor.NotStarted(errors.New("busy"))
			}
			first[time.Since(began).Truncate(50*time.Millisecond)]++
			return ok("1")
		})
		w.register("f", with(spec("each"), map[string]map[string]any{"each": {"map_over": fmt.Sprintf("lists.range(%d)", width)}}))
		began = time.Now()
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
		most := 0
		for _, n := range first {
			most = max(most, n)
		}
		assert.Less(t, most, width/2, "%v", first)
	})
}
