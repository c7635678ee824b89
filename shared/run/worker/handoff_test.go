package worker_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/slots"
	"millrace/shared/run/worker"
)

// remote returns a world whose Python tasks are handed off.
func remote(t *testing.T, seed uint64, odds remoteOdds) (*world, *remotes) {
	w := still(t)
	r := &remotes{
		w: w, odds: odds, takes: []time.Duration{time.Second}, fails: map[string]int{}, rng: rand.New(rand.NewPCG(seed, 1)),
		started: map[string]int{}, told: map[string]int{}, running: map[string]int{}, most: map[string]int{},
	}
	w.load(slog.New(slog.DiscardHandler))
	w.c.Executors["python"] = r
	return w, r
}

// serves starts a process that serves messages and runners.
func (r *remotes) serves(name string, rates faults.Rates, seed uint64) *process {
	p := &process{Process: faults.NewPlan(r.w.t, seed, rates, r.w.table, clock.System{}).Process(name, nil)}
	p.c = r.w.hand(name, func(cfg *worker.Config) {
		cfg.Table, cfg.Queues = p.Table(), p.Queues(r.w.queues)
		cfg.Logs = &runlog.Store{Table: cfg.Table, Blob: cfg.Blob, Clock: clock.System{}, Log: cfg.Log}
		cfg.LongLived = false
		values := quota.Values{quota.RunningTasks: cmp.Or(r.limit, -1), quota.RunningOfAll: cmp.Or(r.all, -1)}
		cfg.Quota = quota.New(quota.Config{Table: cfg.Table, Clock: clock.System{}, Values: values})
	}).Worker
	p.rt = r.w.work(p.c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = append(r.live, p.c)
	return p
}

// dies kills a process that serves.
func (r *remotes) dies(p *process) {
	r.mu.Lock()
	for i, c := range r.live {
		if c == p.c {
			r.live = append(r.live[:i:i], r.live[i+1:]...)
			break
		}
	}
	r.mu.Unlock()
	p.kill()
}

// recover checks that what faults left of slots is freed once tasks wait for
// them, and that nothing is left then.
func (r *remotes) recover(seed uint64) {
	r.mu.Lock()
	r.odds, r.live, r.takes = remoteOdds{}, nil, []time.Duration{3 * time.Minute}
	r.mu.Unlock()
	r.serves("after", faults.Rates{}, seed)
	n := int(cmp.Or(r.limit, r.all)) + 1
	r.w.register("after", wide(n))
	assert.Equal(r.w.t, engine.Succeeded, r.w.ends(r.w.run("after").ID, 20*time.Minute).Status, seed)
	r.ended.Wait() // until the last completion has freed its slot
	assert.Empty(r.w.t, r.held(), seed)
	assert.Zero(r.w.t, r.line(), seed)
}

var diamond = spec("a", "b: a", "c: a", "d: a", "e: b c d", "f: e", "g: f")

// TestSimulatedHandOffs plays runs of tasks that are handed off while requests
// fail, runners are not started, started twice, late, or die, answers are
// delivered again, and processes die. Each attempt begins at most once, faults
// spend no retry, and each run ends as its tasks' own failures require.
func TestSimulatedHandOffs(t *testing.T) {
	t.Parallel()
	some := map[string]int{}
	for seed := range uint64(24) {
		synctest.Test(t, func(t *testing.T) {
			odds := remoteOdds{Refuse: .2, Stray: .6, Cut: .6, Lose: .1, Twice: .15, Late: .1, VeryLate: .1, Die: .1, Resend: .3, Lines: .5}
			w, r := remote(t, seed, odds)
			if seed%2 == 0 {
				r.left = 15 * time.Minute // runners go on
			}
			r.takes = []time.Duration{10 * time.Millisecond, time.Second, 12 * time.Second, 50 * time.Second}
			r.limit = int64(seed % 4) // of slots; 0: none
			if seed%3 == 1 {
				r.all = 8 // of all workspaces
			}
			rng := rand.New(rand.NewPCG(seed, 2))
			fields := map[string]map[string]any{}
			want := engine.Succeeded
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				if rng.IntN(4) == 0 {
					r.fails[name] = 1 + rng.IntN(2)
				}
				fields[name] = map[string]any{"retries": 1}
				if r.fails[name] > 1 {
					want = engine.Failed
				}
			}
			rates := faults.Rates{Throttle: .03, Before: .02, After: .03, Resend: .02, Lose: .05, Late: .1, Duplicate: .1}
			if seed%4 == 0 {
				rates = faults.Rates{}
			}
			other := r.slots()
			var others []slots.Slot // of another workspace, for a while
			if r.all > 0 {
				others = r.holds(other, otherOrg, 7)
				some["others"] += len(others)
				time.AfterFunc(40*time.Second, func() { r.frees(other, otherOrg, others) })
			}
			procs := []*process{r.serves("one", rates, seed), r.serves("two", rates, seed+100)}
			w.ticking()
			w.register("f", with(diamond, fields))
			w.register("beside", wide(6))
			id, beside := w.run("f").ID, w.run("beside").ID
			cancelled := seed%6 == 5
			if seed%3 == 1 {
				time.Sleep(time.Duration(rng.IntN(20_000)) * time.Millisecond)
				r.dies(procs[0])
				procs[0] = r.serves("three", rates, seed+200)
			}
			if cancelled {
				time.Sleep(time.Duration(rng.IntN(30_000)) * time.Millisecond)
				_, err := w.launch.Cancel(w.ctx, org, id)
				cancelled = err == nil
			}
			run := w.ends(id, 6*time.Hour)
			assert.Equal(t, engine.Succeeded, w.ends(beside, 6*time.Hour).Status, seed)
			r.mu.Lock()
			began := len(r.started)
			r.mu.Unlock()
			time.Sleep(2 * worker.HandOff) // for late runners
			r.ended.Wait()
			synctest.Wait()
			assert.Empty(t, r.problems, seed)
			assert.Len(t, r.started, began, "nothing begins after the end")
			if r.limit > 0 || r.all > 0 {
				assert.LessOrEqual(t, r.mostAtOnce(), int(cmp.Or(r.limit, r.all)), seed)
				some["left"] += len(r.held())
				for _, p := range procs {
					r.dies(p)
				}
				r.recover(seed)
			}
			for attempt, n := range r.started {
				assert.Equal(t, 1, n, "%s of seed %d began more than once", attempt, seed)
			}
			for what, n := range r.told {
				some[what] += n
			}
			if cancelled && run.Status == engine.Cancelled {
				return
			}
			assert.Equal(t, want, run.Status, seed)
			for name, item := range w.nodes(id) {
				used := item.Attempt - item.Lost
				switch item.Status {
				case engine.Succeeded:
					assert.Equal(t, r.fails[name]+1, used, "%s of seed %d: %+v", name, seed, item)
					assert.Equal(t, fmt.Sprintf("%q", fmt.Sprintf("%s-%d-%d", id, item.Number(), item.Attempt)), item.Output)
				case engine.Failed:
					assert.Equal(t, executor.TaskFailed, item.ErrorType)
					assert.Equal(t, 2, used, "%s of seed %d: %+v", name, seed, item)
				default:
					assert.Equal(t, engine.UpstreamFailed, item.Status)
				}
			}
		})
	}
	for _, what := range []string{"refuse", "stray", "cut", "lose", "twice", "late", "very late", "die", "resend", "hand on", "others"} {
		assert.Positive(t, some[what], what)
	}
}

// TestHandedOffAttemptIsQueued checks what readers see of an attempt that is
// handed off: it is QUEUED, without a lease, until its runner begins.
func TestHandedOffAttemptIsQueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{Late: 1})
		r.takes = []time.Duration{time.Minute}
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a"))
		id := w.run("f").ID
		time.Sleep(30 * time.Second)
		item := w.nodes(id)["a"]
		assert.Equal(t, engine.Queued, item.Status)
		assert.Zero(t, item.LeaseUntil)
		assert.Zero(t, item.StartedAt)
		assert.Contains(t, item.Reason, "sandbox")
		time.Sleep(time.Minute)
		item = w.nodes(id)["a"]
		assert.Equal(t, engine.Running, item.Status)
		assert.NotZero(t, item.LeaseUntil)
		run := w.ends(id, 5*time.Minute)
		assert.Equal(t, engine.Succeeded, run.Status)
		item = w.nodes(id)["a"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Lost)
		require.Empty(t, r.problems)
		assert.Equal(t, []string{" run_started", "a task_started", "a task_succeeded", " run_finished"}, w.archived(id))
	})
}

// TestLostEventIsSentAgain loses the event of a runner, or the process that was
// about to send it: the attempt begins within a few minutes, with its number.
func TestLostEventIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.vanish = 1
		r.serves("one", faults.Rates{}, 1)
		w.ticking()
		w.register("f", spec("a"))
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.ends(id, 5*time.Minute).Status)
		item := w.nodes(id)["a"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Lost)
		assert.Empty(t, r.problems)
	})
}

// TestTierThatIsGoneEndsItsTasks runs a task whose tier was removed: it fails at
// once and says why, instead of waiting for a runner.
func TestTierThatIsGoneEndsItsTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.gone = true
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a"))
		id := w.run("f").ID
		assert.Equal(t, engine.Failed, w.ends(id, time.Minute).Status)
		item := w.nodes(id)["a"]
		assert.Equal(t, []any{executor.SandboxFailed, "the tier is gone", 1}, []any{item.ErrorType, item.Error, item.Attempt})
		assert.Empty(t, r.problems)
	})
}

// TestRefusedHandOffWaits lets no runner start for a while: the attempt waits
// in the queue with the reason, and begins with its number.
func TestRefusedHandOffWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{Refuse: 1})
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a"))
		id := w.run("f").ID
		time.Sleep(5 * time.Minute)
		item := w.nodes(id)["a"]
		assert.Equal(t, engine.Queued, item.Status)
		assert.Equal(t, "busy", item.Reason)
		assert.Positive(t, item.Deferred)
		assert.Empty(t, item.Handed)
		r.mu.Lock()
		r.odds = remoteOdds{}
		r.mu.Unlock()
		assert.Equal(t, engine.Succeeded, w.ends(id, 2*time.Minute).Status)
		item = w.nodes(id)["a"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Lost)
	})
}

// TestRunnerThatBeganKeepsItsAttempt lets the request that starts a runner fail
// when the runner has begun: it goes on, and nothing is tried again.
func TestRunnerThatBeganKeepsItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{Refuse: 1, Stray: 1, Cut: 1})
		r.takes = []time.Duration{20 * time.Second}
		r.serves("one", faults.Rates{}, 1)
		w.register("f", spec("a"))
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
		item := w.nodes(id)["a"]
		assert.Equal(t, 1, item.Attempt)
		assert.Zero(t, item.Deferred)
		assert.Empty(t, r.problems)
		assert.Equal(t, []string{" run_started", "a task_started", "a task_succeeded", " run_finished"}, w.archived(id))
	})
}

// TestHandOffSentAgainStartsARunner has the driver lose the response to each
// write, and send it again: the runner starts at once, not when the attempt is
// taken for lost.
func TestHandOffSentAgainStartsARunner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		r.serves("one", faults.Rates{Resend: 1}, 1)
		w.register("f", spec("a"))
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.ends(id, worker.HandOff/2).Status)
		assert.Empty(t, r.problems)
	})
}

// begun hands an attempt off and returns its token.
func begun(t *testing.T, w *world, r *remotes) ticket.Attempt {
	r.vanish = 1
	r.serves("one", faults.Rates{}, 1)
	w.register("f", spec("a"))
	id := w.run("f").ID
	time.Sleep(10 * time.Second)
	item := w.nodes(id)["a"]
	require.NotEmpty(t, item.Handed)
	return ticket.Attempt{Org: org, Run: id, Node: 0, Number: 1, Task: "a", Nonce: item.Handed}
}

// TestRunnersOfOthersAreRefused lets runners begin, renew and complete an
// attempt that is not theirs.
func TestRunnersOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := remote(t, 1, remoteOdds{})
		token := begun(t, w, r)
		c, own := r.any(), worker.Runner{Attempt: token, ID: "own"}
		refused := func(what string, change func(*worker.Runner)) {
			other := own
			change(&other)
			_, err := c.Begin(w.ctx, other)
			assert.Equal(t, errs.Conflict, errs.CodeOf(err), "%s: %v", what, err)
			err = c.Complete(w.ctx, other, json.RawMessage(`{}`))
			assert.Equal(t, errs.Conflict, errs.CodeOf(err), "%s: %v", what, err)
			stop, err := c.Renew(w.ctx, other)
			assert.NoError(t, err)
			assert.True(t, stop, what)
		}
		strange := func() {
			refused("nonce", func(r *worker.Runner) { r.Attempt.Nonce = "x" })
			refused("no nonce", func(r *worker.Runner) { r.Attempt.Nonce = "" })
			refused("forged nonce", func(r *worker.Runner) { r.Attempt.Nonce, r.ID = token.Nonce+".own", "x" })
			refused("no id", func(r *worker.Runner) { r.ID = "" })
			refused("long id", func(r *worker.Runner) { r.ID = strings.Repeat("x", 100) })
			refused("workspace", func(r *worker.Runner) { r.Attempt.Org = "org_other" })
			refused("run", func(r *worker.Runner) { r.Attempt.Run = "01OTHER" })
			refused("node", func(r *worker.Runner) { r.Attempt.Node = 1 })
		}
		strange()
		refused("attempt", func(r *worker.Runner) { r.Attempt.Number = 2 })
		require.Equal(t, errs.Conflict, errs.CodeOf(c.Complete(w.ctx, own, json.RawMessage(`{}`))), "it has not begun")
		for range 2 { // the answer may be lost
			message, err := c.Begin(w.ctx, own)
			require.NoError(t, err)
			assert.NotEmpty(t, message)
		}
		strange()
		refused("another runner", func(r *worker.Runner) { r.ID = "other" })
		answer, err := json.Marshal(answered{Attempt: token.Run + "-0-1"})
		require.NoError(t, err)
		require.NoError(t, c.Complete(w.ctx, own, answer))
		require.Equal(t, engine.Succeeded, w.ends(token.Run, time.Minute).Status)
		require.NoError(t, c.Complete(w.ctx, own, json.RawMessage(`{"Fails": true}`)), "the first answer counts")
		item := w.nodes(token.Run)["a"]
		assert.Equal(t, engine.Succeeded, item.Status)
		assert.JSONEq(t, `"`+token.Run+`-0-1"`, item.Output)
		_, err = c.Begin(w.ctx, own)
		assert.Equal(t, errs.Conflict, errs.CodeOf(err))
		assert.Empty(t, r.problems)
	})
}

// TestCancelledHandOffNeverBegins cancels a run before the runner begins, and
// while it runs.
func TestCancelledHandOffNeverBegins(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, r := remote(t, 1, remoteOdds{})
			token := begun(t, w, r)
			own := worker.Runner{Attempt: token, ID: "own"}
			if running {
				_, err := r.any().Begin(w.ctx, own)
				require.NoError(t, err)
			}
			_, err := w.launch.Cancel(w.ctx, org, token.Run)
			require.NoError(t, err)
			if running {
				stop, err := r.any().Renew(w.ctx, own)
				require.NoError(t, err)
				assert.True(t, stop)
				require.NoError(t, r.any().Complete(w.ctx, own, json.RawMessage(`{}`)))
			} else {
				_, err = r.any().Begin(w.ctx, own)
				assert.Equal(t, errs.Conflict, errs.CodeOf(err))
			}
			assert.Equal(t, engine.Cancelled, w.ends(token.Run, 10*time.Second).Status)
			assert.Equal(t, engine.Cancelled, w.nodes(token.Run)["a"].Status)
			assert.Empty(t, r.problems)
		})
	}
}
