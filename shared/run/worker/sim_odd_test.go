package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
	"millrace/shared/run/executor"
	"millrace/shared/run/worker"
)

// scarce is a simulated executor with few slots.
type scarce struct {
	simulated
	places chan struct{}
}

// Reserve waits for a slot as long as the process lives.
func (e scarce) Reserve(ctx context.Context, _ string) (release func(), err error) {
	select {
	case e.places <- struct{}{}:
		return sync.OnceFunc(func() { <-e.places }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-e.p.Died():
		return nil, faults.ErrDead
	}
}

// defers returns how often an attempt's executor cannot begin it.
func (s *sim) defers(a *executor.Attempt) int {
	if a.Task.Name == "cleanup" {
		return s.flow.onFailure.defers
	}
	return s.taskOf(a.Task.Name).defers
}

// unstarted returns the result of an attempt that its executor could not begin.
func (s *sim) unstarted(a *executor.Attempt) executor.Result {
	s.mu.Lock()
	s.executed[a.TaskRunID]--
	s.deferred[a.RunID]++
	s.mu.Unlock()
	return executor.NotStarted(errors.New("no room, as drawn"))
}

// checkGiven checks an attempt's fields besides its inputs.
func (s *sim) checkGiven(a *executor.Attempt) {
	if a.Reserved != (s.places > 0) {
		s.tell("%s began with a place: %t", a.TaskRunID, a.Reserved)
	}
	if secret, err := a.Secret("s"); (err == nil) != s.secrets || s.secrets && secret != "the secret s" {
		s.tell("%s was given the secret %q (%v)", a.TaskRunID, secret, err)
	}
}

// remove removes the objects of all unfinished runs, also from the caches of
// the processes.
func (s *sim) remove() {
	s.removed = true
	objects, _, err := s.blob.List(s.ctx, "", "", 10_000)
	if err != nil {
		s.tell("%v", err)
	}
	s.store.mu.Lock()
	for _, r := range s.store.runs {
		for _, o := range objects {
			if !r.ended && strings.Contains(o.Key, r.id) && !strings.Contains(o.Key, "log") {
				_ = s.blob.Delete(s.ctx, o.Key)
			}
		}
	}
	s.store.mu.Unlock()
	for _, p := range s.procs {
		p.c = worker.New(p.config)
	}
}

// oddly makes executors behave oddly, and tasks refer to what does not exist.
func oddly(t *rapid.T, h *simHistory, acts ...act) {
	for i := range h.flow.tasks {
		task := &h.flow.tasks[i]
		if one(t, 3, "deferred") {
			task.defers = rapid.IntRange(1, 3).Draw(t, "defers")
		}
		if one(t, 3, "odd") && task.wait == 0 {
			for gen := range task.acts {
				task.acts[gen] = [][]act{rapid.SliceOfN(rapid.SampledFrom(acts), task.retries+1, task.retries+1).Draw(t, "odd acts")}
			}
		}
		task.large = task.large || one(t, 4, "large")
		task.unknown = task.wait == 0 && one(t, 12, "unknown")
		if len(task.deps) > 0 && one(t, 8, "wrong") {
			task.cond = "wrong"
		}
		if task.mapped() && one(t, 6, "too wide") {
			task.widths[0] = simMaxWidth + 1
		}
	}
	h.secrets, h.untyped = rapid.Bool().Draw(t, "secrets"), rapid.Bool().Draw(t, "untyped")
	h.places = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "places")
}

// TestSimulatedOddities has executors that panic, do not return when they
// should, cannot begin an attempt, or have few slots, with stores that work.
func TestSimulatedOddities(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		oddly(t, &h, actPanic, actStuck, actSucceed)
		if one(t, 4, "cancelled") {
			h.cancel = []time.Duration{drawCancel(t)}
		}
		return h
	})
}

// TestSimulatedOdditiesInStorms does so with stores and queues that fail, and
// processes that die.
func TestSimulatedOdditiesInStorms(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := stormy(t, calm(t))
		oddly(t, &h, actPanic, actSucceed)
		h.crashes = rapid.IntRange(0, 3).Draw(t, "crashes")
		return h
	})
}

// TestSimulatedEnds lets processes die, and messages be lost, when short runs
// end: by their deadline, or with a task for failed ones.
func TestSimulatedEnds(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := stormy(t, calm(t))
		h.rates.Lose, h.crashes, h.crashWithin = .3, rapid.IntRange(1, 6).Draw(t, "crashes"), 15
		h.pauses = rapid.Bool().Draw(t, "pauses")
		h.flow = simFlow{}
		for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
			h.flow.tasks = append(h.flow.tasks, plainTask(i, nil, drawActs(t, 1)))
		}
		if rapid.Bool().Draw(t, "on_failure") {
			task := plainTask(len(h.flow.tasks), nil, []act{actSucceed})
			task.name = "cleanup"
			h.flow.onFailure = &task
		}
		if rapid.Bool().Draw(t, "deadline") {
			h.flow.deadline = rapid.IntRange(1, 30).Draw(t, "deadline_secs")
		}
		return h
	})
}

// TestSimulatedLosses removes the objects of runs while they run.
func TestSimulatedLosses(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		h.retries, h.forgets, h.flow.deadline = nil, true, 200
		h.gone = time.Duration(rapid.Int64Range(1, int64(150*time.Second)).Draw(t, "gone"))
		for i := range h.flow.tasks {
			task := &h.flow.tasks[i]
			task.large = rapid.Bool().Draw(t, "large")
			if len(task.deps) > 0 && !task.mapped() {
				task.cond = rapid.SampledFrom([]string{"", "output", "params"}).Draw(t, "condition")
			}
		}
		h.bigInput = rapid.Bool().Draw(t, "big input")
		slowly(t, &h)
		return h
	})
}

// TestSimulatedHugeResults has more results waiting for the object store than
// fit, while one of the processes dies, and expressions read some.
func TestSimulatedHugeResults(t *testing.T) {
	alone(t)
	for _, crashes := range []int{0, 1} {
		h := simHistory{seed: 1, processes: 1, slots: 16, crashes: crashes, outages: []simOutage{{faults.Objects, 0, time.Minute, 1, false}}}
		h.flow.tasks = []simTask{plainTask(0, nil, []act{actSucceed})}
		for i := 1; i < 10; i++ {
			task := plainTask(i, []int{0}, []act{actSucceed})
			if task.huge = i < 6; !task.huge {
				task.acts[0] = [][]act{{actSlow}}
			}
			h.flow.tasks = append(h.flow.tasks, task)
		}
		for i, on := range []int{1, 9} {
			task := plainTask(10+i, []int{on}, []act{actSucceed})
			task.cond, task.condOn = "output", on
			h.flow.tasks = append(h.flow.tasks, task)
		}
		play1(t, h)
	}
}

// TestSimulatedOddFlow plays a flow with one of each oddity.
func TestSimulatedOddFlow(t *testing.T) {
	alone(t)
	for seed := range uint64(4) {
		h := simHistory{seed: seed, processes: 1, lambda: seed%2 == 1, secrets: seed%2 == 0, untyped: seed < 2, places: 3, bigInput: seed%2 == 1}
		task := func(deps []int, acts ...act) *simTask {
			h.flow.tasks = append(h.flow.tasks, plainTask(len(h.flow.tasks), deps, acts))
			return &h.flow.tasks[len(h.flow.tasks)-1]
		}
		mapped := func(over, width int) *simTask {
			m := task([]int{over}, actSucceed)
			m.mapOn = over
			m.widths[0] = width
			return m
		}
		task(nil, actSucceed)
		mapped(0, simMaxWidth+1)
		task([]int{0}, actSucceed).cond = "wrong"
		task(nil, actSucceed).unknown = true
		task(nil, actPanic, actSucceed).retries = 1
		task(nil, actStuck, actSucceed).retries = 1
		task(nil, actSucceed).defers = 3
		waits := task(nil, actSucceed)
		waits.wait, waits.defers = 12, 2
		task(nil, actSucceed)
		mapped(8, 3).large = true
		read := task([]int{9}, actSucceed)
		read.cond, read.condOn = "output", 9
		task(nil, actSucceed)
		mapped(11, 2).unknown = true
		h.flow.tasks[12].rule = "all_done"
		if seed == 0 { // outputs too large for memory while they are listed, and a list too large to be read
			task(nil, actSucceed)
			mapped(13, 2).huge = true
			read := task([]int{14}, actSucceed)
			read.cond, read.condOn = "output", 14
			task(nil, actFinal).large = true
		}
		play1(t, h)
	}
}

// TestSimulatedSlots has tasks of nine minutes that wait for one slot, for
// longer than a message does, and continue with others that wait for it in
// turn; or the process dies meanwhile.
func TestSimulatedSlots(t *testing.T) {
	alone(t)
	for _, kills := range []int{0, 1} {
		h := backlog(1, 5, 541, 1, 16)
		h.places = 1
		for i := 1; i < 6; i++ {
			h.flow.tasks = append(h.flow.tasks, plainTask(i+5, []int{i}, []act{actSucceed}))
		}
		h.flow.tasks[3].kills = kills
		play1(t, h)
	}
}

// play1 plays a history and reports violations.
func play1(t *testing.T, h simHistory) {
	t.Helper()
	if broke, s := play(t, h); broke != "" {
		t.Errorf("%s\nfaults: %v\nthe last of what happened:\n%s", broke, s.plan.Counts(), &s.told)
	}
}
