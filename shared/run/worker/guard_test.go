package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
)

// still returns a world without workers of its own.
func still(t *testing.T, opts ...option) *world {
	w := newWorld(t, opts...)
	w.rt.Stop(w.ctx)
	return w
}

func message(kind, run string, node int) events.Run {
	return events.Run{Kind: kind, Org: org, Run: run, Node: node, Attempt: 1}
}

// resent is a table whose n-th update is sent again, because the response to
// the first was lost.
type resent struct {
	table.Table
	mu    sync.Mutex
	n, at int
}

func (r *resent) Update(ctx context.Context, u table.Update) (table.Item, error) {
	r.mu.Lock()
	r.n++
	again := r.n == r.at
	r.mu.Unlock()
	if again {
		_, _ = r.Table.Update(ctx, u)
	}
	return r.Table.Update(ctx, u)
}

// TestEveryWriteMayBeSentAgain sends each update of a history twice in turn,
// like clients that got no response: the history is the same as with one.
func TestEveryWriteMayBeSentAgain(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, at int) (updates int) {
		synctest.Test(t, func(t *testing.T) {
			r := &resent{at: at}
			w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { r.Table = inner; return r } })
			w.playHistory()
			id := w.run("history").ID
			w.checkHistory(id, true)
			for name, item := range w.nodes(id) {
				assert.Zero(t, item.Lost, "%s lost a worker", name)
			}
			updates = r.n
		})
		return updates
	}
	for n := range play(t, 0) {
		t.Run(itoa(n+1), func(t *testing.T) {
			t.Parallel()
			play(t, n+1)
		})
	}
}

// TestReadsAreConsistent uses a table whose reads are stale unless they are
// consistent: all reads that decide anything are.
func TestReadsAreConsistent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.wrap = faults.Lagging })
		w.playHistory()
		w.checkHistory(w.run("history").ID, true)

		began, stopped := make(chan struct{}), make(chan struct{})
		w.task("slow", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			close(began)
			<-ctx.Done()
			close(stopped)
			return ok("1")
		})
		w.register("f", spec("slow"))
		id := w.run("f").ID
		<-began
		// Another process is asked, and its request for a reconciliation is lost, so
		// that only the store tells.
		nowhere := memory.Queues(w.t, clock.System{}, []queue.Definition{{Name: events.Runs, Visibility: time.Minute}})
		other := launch.Launcher{Table: w.table, Queues: nowhere, Blob: w.blob, Clock: w.launch.Clock, Log: w.launch.Log, Broker: &notify.Broker{}}
		asked := time.Now()
		_, err := other.Cancel(w.ctx, org, id)
		require.NoError(t, err)
		<-stopped
		assert.LessOrEqual(t, time.Since(asked), worker.Heartbeat)
		assert.Equal(t, engine.Cancelled, w.wait(id).Status)
	})
}

// TestAttemptStopsBeforeItsLeaseExpires checks that a worker whose heartbeats
// fail stops its task before another can take it over.
func TestAttemptStopsBeforeItsLeaseExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{}
		w := newWorld(t, func(w *world) { w.wrap = func(inner table.Table) table.Table { f.Table = inner; return f } })
		var took time.Duration
		first := true
		w.task("a", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			if !first {
				return ok("2")
			}
			first = false
			f.arm(func(int) (bool, bool) { return true, false })
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			f.disarm()
			return ok("1")
		})
		w.register("f", spec("a"))
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.waitReconciling(id).Status)
		assert.Less(t, took, worker.Lease)
		assert.Greater(t, took, worker.Lease/2, "one heartbeat may fail")
		assert.Equal(t, "2", w.nodes(id)["a"].Output)
	})
}

// waitReconciling waits for the end of a run like wait, and meanwhile
// reconciles it whenever it is due, as ticks do.
func (w *world) waitReconciling(id string) (run runstate.Run) {
	w.t.Helper()
	for range 600 {
		run = w.get(id)
		if run.Status.RunEnded() && run.Archived {
			return run
		}
		if run.DueSK != "" && run.DueSK <= fmt.Sprintf("%013d", time.Now().UnixMilli()) {
			require.NoError(w.t, w.queues.Send(w.ctx, events.Runs, queue.Message{
				Body: fmt.Appendf(nil, `{"kind":"look","org_id":%q,"run_id":%q}`, org, id), Group: org,
			}))
		}
		time.Sleep(10 * time.Second) // of the bubble's time
	}
	require.Fail(w.t, "the run did not end", "%+v %+v", run, w.nodes(id))
	return run
}

// TestWorkerStartsNoTaskWithoutTime checks that a worker continues with no task
// that it has no time for.
func TestWorkerStartsNoTaskWithoutTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": {"timeout_secs": 600}}))
		id := w.run("f").ID
		before := w.waiting()
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		err := w.hand("h").Handle(ctx, message(events.RunStart, id, 0), 1)
		require.NoError(t, err)
		assert.Equal(t, engine.Succeeded, w.status(id, "a"))
		assert.Equal(t, engine.Pending, w.status(id, "b"))
		assert.Equal(t, before+1, w.waiting(), "b has a message of its own")
		ctx, cancel = context.WithTimeout(w.ctx, 15*time.Minute)
		defer cancel()
		err = w.hand("h").Handle(ctx, message(events.RunTask, id, 1), 1)
		require.NoError(t, err)
		assert.Equal(t, engine.Succeeded, w.get(id).Status)
	})
}

// TestMessagesAreInGroupOfWorkspace checks the group of all messages about a
// run.
func TestMessagesAreInGroupOfWorkspace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.register("f", spec("a", "b", "c"))
		id := w.run("f").ID
		err := w.hand("h").Handle(w.ctx, message(events.RunStart, id, 0), 1)
		require.NoError(t, err)
		got, err := w.queues.Receive(w.ctx, events.Tasks("nano"), 10, 0)
		require.NoError(t, err)
		require.Len(t, got, 3, "the first message, and two of the three tasks")
		for _, m := range got {
			assert.Equal(t, org, m.Group, "%s", m.Body)
		}
	})
}

// TestReconciliationLeavesDeadlineDue checks that a run is due at its deadline,
// at the latest, after a reconciliation.
func TestReconciliationLeavesDeadlineDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("f", `{"tasks":[{"name":"nap","type":"wait","config":{"seconds":7200}}],"timeout_secs":1800}`)
		id := w.run("f").ID
		time.Sleep(1700 * time.Second)
		err := w.hand("h").Handle(w.ctx, message(events.RunReconcile, id, 0), 1)
		require.NoError(t, err)
		run := w.get(id)
		assert.Equal(t, fmt.Sprintf("%013d", int64(run.Deadline)), run.DueSK[:13])
		assert.Equal(t, engine.TimedOut, w.waitReconciling(id).Status)
	})
}

// TestStoppedRunWaitsForItsTasks checks that a run does not end while a task
// runs that ignores its context.
func TestStoppedRunWaitsForItsTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := make(chan string, 1)
		var at engine.Status
		w.task("deaf", func(_ context.Context, a *executor.Attempt) executor.Result {
			began <- a.RunID
			time.Sleep(12 * time.Second)
			at = w.get(a.RunID).Status
			return ok("1")
		})
		w.register("f", spec("deaf"))
		w.run("f")
		id := <-began
		_, err := w.launch.Cancel(w.ctx, org, id)
		require.NoError(t, err)
		assert.Equal(t, engine.Cancelled, w.wait(id).Status)
		assert.Equal(t, engine.CancellationRequested, at, "while it ran")
	})
}

// TestStoppedRunIsReconciledUntilItsLeaseExpires checks that a run that is
// cancelled after its only worker was lost ends when the lease expires, without
// a tick.
func TestStoppedRunIsReconciledUntilItsLeaseExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		began := make(chan struct{})
		w.task("a", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			close(began)
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", spec("a"))
		id := w.run("f").ID
		ctx, kill := context.WithCancel(w.ctx)
		gone := make(chan error)
		go func() {
			err := w.hand("gone").Handle(ctx, message(events.RunStart, id, 0), 1)
			gone <- err
		}()
		<-began
		kill()
		require.ErrorIs(t, <-gone, errAgain)
		_, err := w.launch.Cancel(w.ctx, org, id)
		require.NoError(t, err)
		asked := time.Now()
		w.c = w.hand("other").Worker
		w.serve()
		assert.Equal(t, engine.Cancelled, w.wait(id).Status)
		assert.LessOrEqual(t, time.Since(asked), worker.Lease+2*worker.CancelPoll)
		assert.Equal(t, engine.Cancelled, w.status(id, "a"))
	})
}

// TestJoinsCarryWorstOutcome checks that the outcome of one of many tasks
// passes through the joins above them.
func TestJoinsCarryWorstOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result executor.Result
		after  engine.Status
		run    engine.Status
	}{
		"failed":    {executor.Final(executor.TaskFailed, "no"), engine.UpstreamFailed, engine.Failed},
		"timed out": {executor.Result{Failure: &executor.Failure{Type: executor.TaskTimeout, TimedOut: true, Final: true}}, engine.UpstreamFailed, engine.TimedOut},
		"succeeded": {ok("1"), engine.Succeeded, engine.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tasks, deps := []string{}, ""
				for i := range 70 {
					tasks = append(tasks, fmt.Sprintf("p%d", i))
					deps += fmt.Sprintf(" p%d", i)
				}
				w.task("p7", func(context.Context, *executor.Attempt) executor.Result { return c.result })
				w.register("f", spec(append(tasks, "after:"+deps)...))
				run := w.wait(w.run("f").ID)
				assert.Equal(t, c.run, run.Status)
				assert.Equal(t, c.after, w.status(run.ID, "after"))
			})
		})
	}
}
