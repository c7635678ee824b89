package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// failing is a way in which writing the end of an attempt fails.
type failing func(w *world, calm time.Time)

// failings are these ways by name.
var failings = map[string]failing{
	"objects": func(w *world, calm time.Time) {
		w.blob.(*objects).set(func(key string) error {
			if strings.Contains(key, "/out/") {
				return until(calm, errDown)
			}
			return nil
		})
	},
	"hung objects": func(w *world, calm time.Time) {
		w.blob.(*objects).set(func(key string) error {
			if strings.Contains(key, "/out/") {
				return until(calm, errHung)
			}
			return nil
		})
	},
	"writes": func(w *world, calm time.Time) {
		w.table.(*unwritable).fails = func(_ context.Context, u table.Update) error {
			if finishes(u) {
				return until(calm, table.ErrThrottled)
			}
			return nil
		}
	},
}

// charge runs a flow whose first task must run once and has its output in the
// object store. From the task's end until calm the result cannot be written.
func charge(t *testing.T, what failing, outage time.Duration, more string) (*world, string) {
	w := newWorld(t, func(w *world) {
		w.blob = &objects{Store: w.blob}
		w.wrap = func(inner table.Table) table.Table { return &unwritable{Table: inner} }
	})
	w.ticking()
	done := make(chan struct{})
	w.task("charge", func(context.Context, *executor.Attempt) executor.Result {
		if w.times("charge") == 1 {
			what(w, time.Now().Add(outage))
			close(done)
		}
		return ok(`"` + strings.Repeat("x", 2*large) + `"`)
	})
	w.register("f", strings.TrimSuffix(spec("charge", "after: charge"), "}")+more+"}")
	id := w.run("f").ID
	<-done
	return w, id
}

// TestResultIsWrittenAfterFailures checks that a result is stored as soon as
// possible, under the lease of its attempt.
func TestResultIsWrittenAfterFailures(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"objects", "writes"} {
		for _, outage := range []time.Duration{20 * time.Second, 2 * time.Minute, 6 * time.Minute, 10 * time.Minute} {
			t.Run(fmt.Sprint(what, " ", outage), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, id := charge(t, failings[what], outage, "")
					for end := time.Now().Add(outage - time.Second); time.Now().Before(end); time.Sleep(time.Second) {
						item := w.nodes(id)["charge"]
						require.Equal(t, engine.Running, item.Status)
						require.True(t, item.LeaseUntil.Time().After(time.Now()), "its lease is renewed")
					}
					assert.Equal(t, engine.Succeeded, w.ends(id, 2*time.Minute).Status)
					item := w.nodes(id)["charge"]
					assert.Equal(t, engine.Succeeded, item.Status)
					assert.Equal(t, 1, item.Attempt)
					assert.Zero(t, item.Lost)
					assert.Equal(t, 1, w.times("charge"))
					assert.Equal(t, 1, w.times("after"))
				})
			})
		}
	}
}

// TestResultSurvivesShortOutage lets all writes fail for less than the duration
// of a lease.
func TestResultSurvivesShortOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id := charge(t, func(w *world, calm time.Time) {
			w.table.(*unwritable).fails = func(context.Context, table.Update) error { return until(calm, errFault) }
		}, time.Minute, "")
		assert.Equal(t, engine.Succeeded, w.ends(id, 2*time.Minute).Status)
		assert.Equal(t, 1, w.times("charge"))
		assert.Zero(t, w.nodes(id)["charge"].Lost)
	})
}

// TestResultSurvivesLongOutage lets all writes fail for longer than a lease,
// and outputs for even longer. No worker could take over the task meanwhile,
// and none does afterwards.
func TestResultSurvivesLongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 5 * time.Minute
		w, id := charge(t, func(w *world, calm time.Time) {
			failings["objects"](w, calm)
			w.table.(*unwritable).fails = func(context.Context, table.Update) error {
				return until(calm.Add(-outage+50*time.Second), errFault)
			}
		}, outage, "")
		assert.Equal(t, engine.Succeeded, w.ends(id, outage+2*time.Minute).Status)
		assert.Equal(t, 1, w.times("charge"))
		assert.Zero(t, w.nodes(id)["charge"].Lost)
	})
}

// TestInstantResultIsWrittenAfterFailures checks that a task that executes
// without a heartbeat has one while its result cannot be written.
func TestInstantResultIsWrittenAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 2 * time.Minute
		w := newWorld(t, func(w *world) {
			w.wrap = func(inner table.Table) table.Table { return &unwritable{Table: inner} }
		})
		w.ticking()
		failings["writes"](w, time.Now().Add(outage))
		w.register("f", `{"tasks":[{"name":"sum","type":"transform","config":{"expression":"1 + 1"}}]}`)
		id := w.run("f").ID
		time.Sleep(time.Second)
		for end := time.Now().Add(outage - 2*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			item := w.nodes(id)["sum"]
			require.Equal(t, engine.Running, item.Status)
			require.True(t, item.LeaseUntil.Time().After(time.Now()), "its lease is renewed")
		}
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
		item := w.nodes(id)["sum"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Lost)
		assert.Equal(t, "2", item.Output)
	})
}

// TestInstantResultKeepsLeaseWhileStoreHangs checks that a task without a
// heartbeat does not lose its lease to a write that gets no response.
func TestInstantResultKeepsLeaseWhileStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 2 * worker.Lease
		calm := time.Now().Add(outage)
		w := newWorld(t, func(w *world) {
			w.wrap = func(inner table.Table) table.Table {
				return &hanging{Table: inner, most: 3 * worker.Lease, write: func(u table.Update) bool { return finishes(u) && time.Now().Before(calm) }}
			}
		})
		w.ticking()
		w.register("f", `{"tasks":[{"name":"sum","type":"transform","config":{"expression":"1 + 1"}}]}`)
		id := w.run("f").ID
		time.Sleep(time.Second)
		for end := time.Now().Add(2 * outage); time.Now().Before(end) && w.status(id, "sum") == engine.Running; time.Sleep(time.Second) {
			require.True(t, w.nodes(id)["sum"].LeaseUntil.Time().After(time.Now()), "its lease is renewed")
		}
		assert.Equal(t, engine.Succeeded, w.ends(id, 3*worker.Lease).Status)
		item := w.nodes(id)["sum"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Lost)
	})
}

// TestWaitingResultDoesNotDelayStop cancels a run, or lets its deadline pass,
// while the result of its task cannot be written.
func TestWaitingResultDoesNotDelayStop(t *testing.T) {
	t.Parallel()
	for why, status := range map[string]engine.Status{"cancel": engine.Cancelled, "deadline": engine.TimedOut} {
		for _, what := range []string{"objects", "hung objects"} {
			t.Run(why+" "+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					more := ""
					if why == "deadline" {
						more = `,"timeout_secs":60`
					}
					w, id := charge(t, failings[what], time.Hour, more)
					time.Sleep(50 * time.Second)
					assert.Equal(t, engine.Running, w.status(id, "charge"))
					if why == "cancel" {
						_, err := w.launch.Cancel(w.ctx, org, id)
						require.NoError(t, err)
					}
					assert.Equal(t, status, w.ends(id, 25*time.Second).Status)
					assert.Equal(t, engine.Cancelled, w.status(id, "charge"))
					assert.Equal(t, 1, w.times("charge"))
					assert.Zero(t, w.nodes(id)["charge"].Lost)
					assert.Zero(t, w.times("after"))
				})
			})
		}
	}
}

// TestWaitingResultEndsWithWorkersTime checks that a worker with little time
// left retries the write for that time only.
func TestWaitingResultEndsWithWorkersTime(t *testing.T) {
	t.Parallel()
	const has = time.Minute
	const short = 40 * time.Second
	for outage, once := range map[time.Duration]bool{short: true, 10 * time.Minute: false} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t, func(w *world) { w.blob = &objects{Store: w.blob} })
				failings["objects"](w, time.Now().Add(outage))
				w.task("charge", func(context.Context, *executor.Attempt) executor.Result {
					return ok(`"` + strings.Repeat("x", 2*large) + `"`)
				})
				w.register("f", with(spec("charge"), map[string]map[string]any{"charge": {"timeout_secs": 30}}))
				id := w.run("f").ID
				got, err := w.queues.Receive(w.ctx, events.Tasks("nano"), 10, 0)
				require.NoError(t, err)
				require.Len(t, got, 1)
				ctx, cancel := context.WithTimeout(w.ctx, has)
				defer cancel()
				began := time.Now()
				err = w.hand("lambda", w.frozen).Handle(ctx, message(events.RunStart, id, 0), 1)
				took := time.Since(began)
				assert.LessOrEqual(t, took, has)
				if once {
					require.NoError(t, err)
					assert.Equal(t, engine.Succeeded, w.get(id).Status)
					assert.Equal(t, 1, w.times("charge"))
					return
				}
				assert.GreaterOrEqual(t, took, short, "it did not give up early")
				w.process("next")
				w.ticking()
				assert.Equal(t, engine.Succeeded, w.ends(id, outage+5*time.Minute).Status)
			})
		})
	}
}
