package worker_test

import (
	"time"

	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
)

// simHistory is the part of a history that is drawn before it is played. The
// order of events and the failures are drawn from the seed while it is played.
type simHistory struct {
	flow        simFlow
	seed        uint64
	rates       faults.Rates
	outages     []simOutage
	calmAfter   time.Duration // of each generation, until failures end
	processes   int
	slots       int             // messages that a process handles at a time; 0: 16
	batch       int             // messages of one invocation
	skew        []time.Duration // of the processes' clocks, in turn
	sole        bool            // a new process voids the leases of earlier ones
	power       bool            // a crash is a power cut of a machine with synchronous commits
	lambda      bool            // processes keep nothing between messages, and have a time limit
	crashes     int
	crashWithin int  // number of requests of a process within which it crashes; 0: 60
	bigInput    bool // the runs' inputs are stored as objects
	pauses      bool
	twice       bool            // each run is requested by two clients at a time, with one idempotency key
	forgets     bool            // processes lose their memory except for work in progress
	noTicks     bool            // and so only the reconciliations of cancels and deadlines
	places      int             // attempts that a process executes at a time; 0: no limit
	secrets     bool            // tasks may read secrets
	untyped     bool            // messages come from an earlier version, without the types of tasks
	gone        time.Duration   // time after the start when the runs' objects are removed; 0: never
	orgs        []string        // workspaces of the runs, one each; nil: one run
	cancel      []time.Duration // time after the start, one for each generation that is cancelled
	retries     []bool          // of each retry: whether it is from failed, or in full
}

// simOutage is a time in which a port fails, relative to the start of each
// generation.
type simOutage struct {
	port       faults.Port
	after, For time.Duration
	rate       float64
	hang       bool
}

// faulty reports whether anything may fail in the history.
func (h *simHistory) faulty() bool {
	kills := false
	for i := range h.flow.tasks {
		kills = kills || h.flow.tasks[i].kills > 0
	}
	return h.rates != faults.Rates{} || len(h.outages) > 0 || h.crashes > 0 || h.pauses || h.gone > 0 || kills
}

// mostSkew is how much the clocks of two processes may differ: less than half a
// lease, because an attempt begins with at least half of its lease left.
func (h *simHistory) mostSkew() time.Duration {
	var least, most time.Duration
	for _, d := range h.skew {
		least, most = min(least, d), max(most, d)
	}
	return most - least
}

func drawFlow(t *rapid.T) simFlow {
	var f simFlow
	n := rapid.IntRange(1, 9).Draw(t, "tasks")
	wide := 0
	if rapid.IntRange(0, 14).Draw(t, "wide") == 14 {
		wide = rapid.SampledFrom([]int{64, 65, 101, 130, 260}).Draw(t, "width")
	}
	for i := range n {
		f.tasks = append(f.tasks, drawTask(t, f.tasks, i))
	}
	if wide > 0 { // a fan-out of one root and its join
		for range wide {
			f.tasks = append(f.tasks, plainTask(len(f.tasks), []int{0}, drawActs(t, 1)))
		}
		join := plainTask(len(f.tasks), nil, drawActs(t, 1))
		join.rule = rapid.SampledFrom(simRules).Draw(t, "rule")
		for i := range wide {
			join.deps = append(join.deps, n+i)
		}
		f.tasks = append(f.tasks, join)
	}
	if rapid.IntRange(0, 3).Draw(t, "on_failure") == 0 {
		task := plainTask(len(f.tasks), nil, drawActs(t, 2))
		task.name, task.retries, task.lines = "cleanup", 1, 1
		f.onFailure = &task
	}
	if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
		f.deadline = rapid.IntRange(1, 90).Draw(t, "deadline_secs")
	}
	return f
}

var simRules = []string{"all_success", "all_success", "all_done", "one_failed", "none_failed"}

func drawActs(t *rapid.T, tries int) []act {
	return rapid.SliceOfN(rapid.SampledFrom([]act{actSucceed, actSucceed, actSucceed, actSucceed, actSlow, actFail, actFail, actFinal, actHang}), tries, tries).Draw(t, "acts")
}

// one draws true with a probability of 1/n.
func one(t *rapid.T, n int, label string) bool { return rapid.IntRange(0, n-1).Draw(t, label) == n-1 }

func drawTask(t *rapid.T, before []simTask, i int) simTask {
	task := plainTask(i, nil, nil)
	for d := range before {
		if rapid.IntRange(0, 2).Draw(t, "dep") == 0 && len(task.deps) < 4 {
			task.deps = append(task.deps, d)
		}
	}
	task.rule = rapid.SampledFrom(simRules).Draw(t, "rule")
	task.retries = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "retries")
	task.timeout = rapid.SampledFrom([]int{20, 20, 20, 110}).Draw(t, "timeout")
	task.lines = rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "lines")
	if one(t, 16, "long delay") { // longer than a queue delays
		task.delay = 1000
	}
	if rapid.IntRange(0, 9).Draw(t, "wait") == 0 {
		task.wait = rapid.SampledFrom([]int{12, 12, 12, 1000}).Draw(t, "seconds")
	}
	task.large = rapid.IntRange(0, 19).Draw(t, "large") == 0
	if len(task.deps) > 0 {
		task.condOn = rapid.SampledFrom(task.deps).Draw(t, "on")
		condition := false
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			condition = true
		case 1, 2:
			if before[task.condOn].wait == 0 && task.wait == 0 {
				task.mapOn = task.condOn
				condition = one(t, 4, "mapped if")
				before[task.mapOn].fat = before[task.mapOn].fat || one(t, 6, "fat")
			}
		}
		if condition {
			task.cond = rapid.SampledFrom([]string{"never", "output", "status", "params"}).Draw(t, "condition")
		}
	}
	for gen := range generations {
		task.acts[gen] = nil
		if task.mapped() {
			task.widths[gen] = rapid.SampledFrom([]int{0, 1, 2, 3, 5, 2, 3, 5, 65, 101, 130}).Draw(t, "width")
			if gen > 0 && rapid.Bool().Draw(t, "same") {
				task.widths[gen] = task.widths[0]
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "scripts") {
			task.acts[gen] = append(task.acts[gen], drawActs(t, task.retries+1))
		}
	}
	return task
}
