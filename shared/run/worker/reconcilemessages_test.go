package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
)

// tallied is queues that count the messages sent to the tier's queue, and lose
// the first ones of a node.
type tallied struct {
	queue.Queues
	mu         sync.Mutex
	sent, lost int
	lose       int // a node; -1: none
	times      int // how many of its messages
}

func (q *tallied) Send(ctx context.Context, to string, msgs ...queue.Message) error {
	q.mu.Lock()
	var out []queue.Message
	for _, msg := range msgs {
		var m events.Run
		if json.Unmarshal(msg.Body, &m) == nil && m.Kind == events.RunTask && m.Node == q.lose && q.lost < q.times {
			q.lost++
			continue
		}
		out = append(out, msg)
	}
	if to == events.Tasks("nano") {
		q.sent += len(out)
	}
	q.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	return q.Queues.Send(ctx, to, out...)
}

// tally returns queues that count the messages of a world's workers.
func (w *world) tally(lose int) *tallied {
	w.rt.Stop(w.ctx)
	q := &tallied{Queues: w.queues, lose: lose, times: 1}
	w.queues = q
	w.start(slog.New(slog.DiscardHandler))
	w.ticking()
	return q
}

// TestSlowTasksAreSentOnce lets 300 tasks of nine minutes wait for 16 workers
// for hours: reconciliations do not treat waiting messages as lost.
func TestSlowTasksAreSentOnce(t *testing.T) {
	t.Parallel()
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprint("mapped ", mapped), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				q := w.tally(-1)
				const n = 300
				var tasks []string
				for i := range n {
					tasks = append(tasks, fmt.Sprintf("p%d", i))
					w.lasting(tasks[i], 9*time.Minute)
				}
				flow := spec(tasks...)
				if mapped {
					w.lasting("each", 9*time.Minute)
					flow = with(spec("each"), map[string]map[string]any{"each": {"map_over": fmt.Sprintf("lists.range(%d)", n)}})
				}
				w.register("f", flow)
				run := w.ends(w.run("f").ID, 4*time.Hour)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.Less(t, time.Duration(run.Duration())*time.Millisecond, 180*time.Minute, "300 times nine minutes on 16 workers are 171")
				assert.LessOrEqual(t, q.sent, 2*n)
				assert.Zero(t, w.dead())
				w.mu.Lock()
				defer w.mu.Unlock()
				assert.Len(t, w.ran, n, "each ran once")
			})
		})
	}
}

// TestWaitingRunIsSentOnce lets runs wait for an hour until a worker is free:
// the messages that start them are not sent again and again.
func TestWaitingRunIsSentOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		q := w.tally(-1)
		for i := range 16 {
			w.lasting(fmt.Sprint("long", i), 13*time.Minute)
		}
		w.register("short", spec("a"))
		for range 5 { // an hour and more of work for all workers
			for i := range 16 {
				flow := fmt.Sprint("long", i)
				w.register(flow, with(spec(flow), map[string]map[string]any{flow: {"timeout_secs": 840}}))
				w.run(flow)
			}
		}
		var ids []string
		for range 40 {
			ids = append(ids, w.run("short").ID)
		}
		for _, id := range ids {
			assert.Equal(t, engine.Succeeded, w.ends(id, 2*time.Hour).Status)
		}
		assert.LessOrEqual(t, q.sent, 2*(80+40))
		assert.Equal(t, 40, w.times("a"))
		assert.Zero(t, w.dead())
	})
}

// TestLostMessageIsFoundDespiteProgress loses the message of a task while
// another branch of its run begins a task every 50 s.
func TestLostMessageIsFoundDespiteProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const chain = 30
		w := newWorld(t)
		tasks := []string{"root"}
		for i := range chain {
			name, dep := fmt.Sprintf("t%d", i), "root"
			if i > 0 {
				dep = fmt.Sprintf("t%d", i-1)
			}
			tasks = append(tasks, name+": "+dep)
			w.lasting(name, 50*time.Second)
		}
		tasks = append(tasks, "other: root")
		q := w.tally(chain + 1)
		var ready, began time.Time
		w.task("root", func(context.Context, *executor.Attempt) executor.Result {
			time.Sleep(90 * time.Second) // the run has been reconciled
			ready = time.Now()
			return ok("1")
		})
		w.task("other", func(context.Context, *executor.Attempt) executor.Result {
			began = time.Now()
			return ok("1")
		})
		w.register("f", spec(tasks...))
		assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, time.Hour).Status)
		require.Equal(t, 1, q.lost)
		assert.LessOrEqual(t, began.Sub(ready), 2*time.Minute+time.Second)
		assert.Equal(t, 1, w.times("other"))
	})
}

// TestMessageLostRepeatedlyIsSentAgain checks that each further time the task
// waits at most twice as long, and never longer than four minutes.
func TestMessageLostRepeatedlyIsSentAgain(t *testing.T) {
	t.Parallel()
	for times, within := range map[int]time.Duration{2: 4 * time.Minute, 3: 7 * time.Minute, 6: 20 * time.Minute} {
		t.Run(itoa(times), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				q := w.tally(1)
				q.times = times
				w.register("f", spec("a", "b", "c: a b"))
				assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, within).Status)
				assert.Equal(t, times, q.lost)
				assert.Equal(t, 1, w.times("b"))
			})
		})
	}
}

// TestDeadWorkerIsReplaced kills one of two processes of a cloud in the middle
// of a long task, with the message that it had received: the other continues
// soon after the lease has expired.
func TestDeadWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Duration{4 * time.Second, 30 * time.Second, 3 * time.Minute, 9 * time.Minute, 13 * time.Minute} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := still(t)
				begun := make(chan time.Time, 10)
				w.task("a", func(ctx context.Context, a *executor.Attempt) executor.Result {
					begun <- time.Now()
					if a.Number == 1 {
						<-ctx.Done()
					}
					return ok("1")
				})
				w.register("f", with(spec("a", "b: a"), map[string]map[string]any{"a": {"timeout_secs": 840}}))
				id := w.run("f").ID
				gone := w.process("gone", w.frozen)
				w.ticking()
				<-begun
				w.process("other", w.frozen)
				time.Sleep(at)
				gone.kill()
				died := time.Now()
				assert.Equal(t, engine.Succeeded, w.ends(id, 20*time.Minute).Status)
				require.Len(t, begun, 1)
				assert.LessOrEqual(t, (<-begun).Sub(died), 90*time.Second+time.Minute)
				assert.Equal(t, 1, w.nodes(id)["a"].Lost)
				assert.Zero(t, w.dead())
			})
		})
	}
}
