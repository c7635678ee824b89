package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/worker"
)

// archived returns the log of a run that has ended: each event as task and
// type, lines of tasks as task and text. It asserts that there is nothing
// besides the archive.
func (w *world) archived(id string) (out []string) {
	w.t.Helper()
	time.Sleep(time.Minute) // until buffered lines are written
	synctest.Wait()
	for from := table.Cursor(""); ; {
		page, err := w.logs.Page(w.ctx, org, id, true, from, runlog.MaxLimit)
		require.NoError(w.t, err)
		require.Equal(w.t, runlog.Archive, page.Source)
		for _, raw := range page.Events {
			var e runlog.Event
			require.NoError(w.t, json.Unmarshal(raw, &e))
			if e.EventType == runlog.TypeLog {
				e.EventType = e.Message
			}
			if e.MapIndex != nil {
				e.TaskName += fmt.Sprintf("[%d]", *e.MapIndex)
			}
			out = append(out, e.TaskName+" "+e.EventType)
		}
		if from = page.Next; from == "" {
			break
		}
	}
	batches, err := w.plain.Query(w.ctx, table.Query{PK: runstate.LogPartition(org, id)})
	require.NoError(w.t, err)
	assert.Empty(w.t, batches.Items, "batches are left behind")
	return out
}

// told asserts that events are in the log once each, in this order.
func told(t *testing.T, log []string, events ...string) {
	t.Helper()
	var got []string
	for _, e := range log {
		if slices.Contains(events, e) {
			got = append(got, e)
		}
	}
	assert.Equal(t, events, got, "%v", log)
}

// onSend is queues that call a hook after the first message of a task was sent.
type onSend struct {
	queue.Queues
	once sync.Once
	hook func(m events.Run)
}

func (s *onSend) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	err := s.Queues.Send(ctx, name, msgs...)
	var m events.Run
	if json.Unmarshal(msgs[0].Body, &m) == nil && m.Kind == events.RunTask {
		s.once.Do(func() { s.hook(m) })
	}
	return err
}

// TestLogOfHandover lets another process end the run as soon as a message is in
// the queue, before its sender has done anything else.
func TestLogOfHandover(t *testing.T) {
	t.Parallel()
	tooLong := map[string]any{"timeout_secs": 600} // more than the time that the first worker has left
	for name, c := range map[string]struct {
		flow string
		want []string
	}{
		"next task": {
			with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": tooLong}),
			[]string{"a " + runlog.TypeTaskStarted, "a line of attempt 1", "a " + runlog.TypeTaskSucceeded, "b " + runlog.TypeTaskStarted, "b " + runlog.TypeTaskSucceeded},
		},
		"next attempt": {
			with(spec("again"), map[string]map[string]any{"again": {"timeout_secs": 5, "retries": 1, "retry_backoff": map[string]any{"delay_secs": 0}}}),
			[]string{"again line of attempt 1", "again " + runlog.TypeTaskRetrying, "again line of attempt 2", "again " + runlog.TypeTaskSucceeded},
		},
		"sibling": {
			with(spec("a", "b: a", "c: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": {"condition": "false"}, "c": {"condition": "false"}}),
			[]string{"a line of attempt 1", "a " + runlog.TypeTaskSucceeded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				speak := func(_ context.Context, a *executor.Attempt) executor.Result {
					a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: "line of attempt " + itoa(a.Number)})
					if a.Task.Name == "again" && a.Number == 1 {
						return executor.Failed(executor.TaskFailed, "once")
					}
					return ok("1")
				}
				w.task("a", speak)
				w.task("again", speak)
				w.register("f", c.flow)
				id := w.run("f").ID
				other := w.hand("other", w.frozen)
				sent := &onSend{Queues: w.queues, hook: func(m events.Run) {
					time.Sleep(time.Millisecond)
					assert.NoError(t, other.Handle(w.ctx, m, 1))
				}}
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				one := w.hand("one", w.frozen, func(cfg *worker.Config) { cfg.Queues = sent })
				require.NoError(t, one.Handle(ctx, message(events.RunStart, id, 0), 1))
				w.process("rest")
				w.ticking()
				require.Equal(t, engine.Succeeded, w.ends(id, 3*time.Minute).Status)
				told(t, w.archived(id), c.want...)
			})
		})
	}
}

// TestLogOfEndAtDeadline lets a reconciliation end a run with a timeout of one
// second, and archive its log, after the end of its task was written and before
// it was logged.
func TestLogOfEndAtDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result executor.Result
		want   string
	}{
		"succeeded": {ok("1"), runlog.TypeTaskSucceeded},
		"failed":    {executor.Final(executor.TaskFailed, "no"), runlog.TypeTaskFailed},
	} {
		for _, why := range []string{"deadline", "cancel"} {
			t.Run(name+" "+why, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := still(t)
					w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
						time.Sleep(900 * time.Millisecond)
						a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: "last words"})
						return c.result
					})
					flow := spec("a", "b: a")
					if why == "deadline" {
						flow = strings.TrimSuffix(flow, "}") + `,"timeout_secs":1}`
					}
					w.register("f", flow)
					id := w.run("f").ID
					reconciler := w.hand("reconciler", w.frozen)
					var ended atomic.Bool
					tbl := &unwritable{Table: w.plain, hook: func(u table.Update) {
						if !finishes(u) || !ended.CompareAndSwap(false, true) {
							return
						}
						if why == "cancel" {
							_, err := w.launch.Cancel(w.ctx, org, id)
							require.NoError(t, err)
						}
						time.Sleep(200 * time.Millisecond)
						require.NoError(t, reconciler.Handle(w.ctx, message(events.RunReconcile, id, 0), 1))
					}}
					// Both write their logs to the same table only.
					one := w.hand("one", func(cfg *worker.Config) { cfg.Table = tbl }, w.frozen, func(cfg *worker.Config) { cfg.Logs.Table = w.plain })
					_ = one.Handle(w.ctx, message(events.RunStart, id, 0), 1)
					w.process("rest")
					w.ticking()
					run := w.ends(id, 5*time.Minute)
					assert.NotEqual(t, engine.Succeeded, run.Status)
					log := w.archived(id)
					if w.status(id, "a") == engine.Cancelled {
						told(t, log, "a last words", "a "+runlog.TypeTaskCancelled)
					} else {
						told(t, log, "a last words", "a "+c.want)
					}
				})
			})
		}
	}
}

// TestLogOfFailedMessage lets a function fail after its task ended, in an
// environment that never resumes: the task's lines are in the log.
func TestLogOfFailedMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.task("a", func(_ context.Context, a *executor.Attempt) executor.Result {
			a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: "what matters"})
			return ok("1")
		})
		w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 5}, "b": {"timeout_secs": 600}}))
		id := w.run("f").ID
		p := faults.NewPlan(t, 1, faults.Rates{}, w.plain, clock.System{}).Process("one", nil)
		one := w.hand("one", func(cfg *worker.Config) { cfg.Table, cfg.Queues = p.Table(), refusing{w.queues} }, w.frozen)
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		require.ErrorIs(t, one.Handle(ctx, message(events.RunStart, id, 0), 1), errAgain, "b cannot be passed on")
		p.Kill()
		time.Sleep(time.Millisecond)
		require.NoError(t, w.hand("two", w.frozen).Handle(w.ctx, message(events.RunStart, id, 0), 2))
		w.process("rest")
		w.ticking()
		assert.Equal(t, engine.Succeeded, w.ends(id, 3*time.Minute).Status)
		told(t, w.archived(id), "a what matters", "a "+runlog.TypeTaskSucceeded, "b "+runlog.TypeTaskSucceeded)
	})
}

// hungLog is a table that accepts no log batches until a time.
type hungLog struct {
	table.Table
	until time.Time
}

func (h *hungLog) Put(ctx context.Context, p table.Put) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(h.until)):
	}
	return h.Table.Put(ctx, p)
}

// TestLogOfCancelledAttemptThatHangs lets the log accept no lines for longer
// than a lease when a run is cancelled. The attempt is not lost, and its lines
// are in the log in the end.
func TestLogOfCancelledAttemptThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := still(t)
		w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
			a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: "last words"})
			<-ctx.Done()
			return executor.Failed(executor.TaskFailed, "stopped")
		})
		w.register("f", with(spec("a"), map[string]map[string]any{"a": {"timeout_secs": 600}}))
		id := w.run("f").ID
		one := w.hand("one", w.frozen, func(cfg *worker.Config) {
			cfg.Logs.Table = &hungLog{w.plain, time.Now().Add(5 * time.Minute)}
		})
		go func() {
			_ = one.Handle(w.ctx, message(events.RunStart, id, 0), 1)
		}()
		time.Sleep(2 * worker.Lease)
		require.Equal(t, engine.Running, w.status(id, "a"))
		_, err := w.launch.Cancel(w.ctx, org, id)
		require.NoError(t, err)
		time.Sleep(worker.Heartbeat + worker.Lease)
		item := w.nodes(id)["a"]
		assert.Equal(t, engine.Cancelled, item.Status)
		assert.Equal(t, 1, item.Attempt)
		w.process("rest")
		w.ticking()
		require.Equal(t, engine.Cancelled, w.ends(id, 10*time.Minute).Status)
		time.Sleep(5 * time.Minute)
		assert.Zero(t, w.nodes(id)["a"].Lost)
		told(t, w.archived(id), "a last words", "a "+runlog.TypeTaskCancelled)
	})
}

// refusing is queues that reject all messages.
type refusing struct{ queue.Queues }

func (refusing) Send(context.Context, string, ...queue.Message) error { return errDown }
