package backfills_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/backfills"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// history is one backfill on a table that fails, with messages that are lost,
// repeated and out of order, handled by processes that die.
type history struct {
	*world
	id          string
	concurrency int
	plan        *faults.Plan
	gate        *faults.Steps
	over        chan struct{}

	mu    sync.Mutex
	inbox []message
	rng   *rand.Rand
}

// message is one for the function of the events, or the other one.
type message struct {
	event bool
	body  string
}

func (h *history) draw(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

func (h *history) send(m message, copies int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range copies {
		h.inbox = append(h.inbox, m)
	}
}

// take returns any message.
func (h *history) take() (message, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.inbox) == 0 {
		return message{}, false
	}
	i := h.rng.IntN(len(h.inbox))
	m := h.inbox[i]
	h.inbox = append(h.inbox[:i:i], h.inbox[i+1:]...)
	return m, true
}

func (h *history) done() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// process handles messages, and dies now and then; another takes its place.
func (h *history) process(name string) {
	for life := 0; !h.done(); life++ {
		p := h.plan.Process(fmt.Sprint(name, life), h.gate)
		if h.draw(2) == 0 {
			p.CrashAt(1+h.draw(12), h.draw(2) == 0)
		}
		deps := h.Deps
		deps.Table = p.Table()
		handlers := map[bool]fn.MessageHandler{false: backfills.DueSpec.Messages(deps), true: backfills.EventsSpec.Messages(deps)}
		for alive := true; alive && !h.done(); {
			m, ok := h.take()
			if !ok {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			out, err := handlers[m.event](h.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: "m", Body: m.body}}})
			if err != nil || len(out.BatchItemFailures) > 0 {
				h.send(m, 1)
				time.Sleep(time.Second)
			}
			select {
			case <-p.Died():
				alive = false
			default:
			}
		}
	}
}

// runsNow are the runs of the workspace, by id.
func (h *history) runsNow() (all []runstate.Run) {
	for item, err := range table.All(h.t.Context(), h.Deps.Table, table.Query{Index: table.ByList, PK: runstate.ListPartition(h.A.OrgID, "", "")}) {
		require.NoError(h.t, err)
		run, err := table.Load[runstate.Run](h.t.Context(), h.Deps.Table, item.Key())
		require.NoError(h.t, err)
		all = append(all, run)
	}
	return all
}

// work ends runs, of which there are never too many.
func (h *history) work() {
	for !h.done() {
		time.Sleep(time.Duration(1+h.draw(400)) * time.Millisecond)
		unfinished := 0
		for _, run := range h.runsNow() {
			if run.Status.RunEnded() {
				continue
			}
			if unfinished++; h.draw(3) == 0 {
				h.end(run.ID, []engine.Status{engine.Succeeded, engine.Succeeded, engine.Failed, engine.Cancelled}[h.draw(4)])
				batch, err := h.queues.Receive(h.t.Context(), busQueue, queue.MaxBatch, 0)
				assert.NoError(h.t, err)
				for _, m := range batch {
					h.send(message{true, string(m.Body)}, h.draw(4))
					assert.NoError(h.t, h.queues.Delete(h.t.Context(), busQueue, m.Receipt))
				}
			}
		}
		assert.LessOrEqual(h.t, unfinished, h.concurrency)
	}
}

// remind makes the backfill come up while it is due, as the tick does, and ends
// the history with it.
func (h *history) remind() {
	key := table.Key{PK: h.A.OrgID + "#backfills", SK: h.id}
	for {
		time.Sleep(20 * time.Second)
		job, err := table.Load[backfills.Job](h.t.Context(), h.Deps.Table, key, table.Consistent)
		assert.NoError(h.t, err)
		if job.DueAt == 0 {
			close(h.over)
			return
		}
		body, err := json.Marshal(events.Due{Kind: backfills.Due.Name, PK: key.PK, SK: key.SK, At: job.DueAt.Time()})
		assert.NoError(h.t, err)
		h.send(message{false, string(body)}, 1+h.draw(2))
	}
}

// TestBackfillUnderFaults plays backfills, some of which are cancelled: of each
// interval there is one run at most, exactly one unless it was cancelled, and
// never more of them than may be at once.
func TestBackfillUnderFaults(t *testing.T) {
	t.Parallel()
	const intervals = 12
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w := open(t, localtest.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			h := &history{
				world: w, concurrency: 1 + int(seed%4), gate: faults.NewSteps(), over: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 1)),
				plan: faults.NewPlan(t, seed, faults.Rates{Throttle: .02, Before: .02, After: .05, Conflict: .1, Resend: .03}, w.Deps.Table, clock.System{}),
			}
			h.id = w.ask(hourly(intervals, h.concurrency)).Require(t, 200).String(t, "backfill_id")
			var all sync.WaitGroup
			for _, name := range []string{"a", "b", "c"} {
				all.Go(func() { h.process(name) })
			}
			all.Go(h.work)
			all.Go(h.remind)
			cancels := seed%3 == 0
			if cancels {
				all.Go(func() {
					time.Sleep(time.Duration(20_000+h.draw(4000)) * time.Millisecond)
					cancelled := w.Do(t, w.A.Key, "POST", "/backfills/"+h.id+"/cancel", nil)
					assert.Contains(t, []int{200, 409}, cancelled.Code, "%s", cancelled.Body)
					if cancelled.Code == 200 {
						var v view
						cancelled.Into(t, &v)
						v.check(t)
						assert.Len(t, h.runsNow(), v.Dispatched, "no run is made after the answer")
					}
				})
			}
			idle := make(chan struct{})
			go func() {
				all.Wait()
				close(idle)
			}()
			h.gate.Play(rand.New(rand.NewPCG(seed, 2)), synctest.Wait, 300*time.Millisecond, idle)

			v := w.get(h.id)
			dates := map[string]int{}
			for _, item := range w.runs(h.id) {
				run := w.Do(t, w.A.Key, "GET", "/runs/"+item.(object)["run_id"].(string), nil).Require(t, 200)
				dates[run.String(t, "logical_date")]++
			}
			for _, one := range v.Intervals {
				switch {
				case one.RunID != nil:
					assert.Equal(t, 1, dates[one.LogicalAt], "seed %d, interval %d", seed, one.Index)
				default:
					assert.Equal(t, "CANCELLED", one.Status, "seed %d, interval %d", seed, one.Index)
					assert.Zero(t, dates[one.LogicalAt], "seed %d, interval %d", seed, one.Index)
				}
			}
			assert.Len(t, dates, v.Dispatched)
			if v.Status != "CANCELLED" {
				assert.Equal(t, "COMPLETED 12", fmt.Sprint(v.Status, " ", v.Dispatched), "seed %d: %s", seed, v.states())
			}
			assert.True(t, cancels || v.Status == "COMPLETED")
		})
	}
}
