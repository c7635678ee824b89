package worker_test

import (
	"fmt"

	"millrace/shared/run/engine"
	"millrace/shared/run/worker"
)

// verdict is the expected end of a run: its status and its nodes', by task
// name, instances as name[i]. Tasks that do not end are not included.
type verdict struct {
	run   engine.Status
	nodes map[string]engine.Status
}

// source is the run that a retry reuses results of.
type source struct {
	nodes map[string]engine.Status
	from  map[int]int // by task: the generation that made its output
	width map[int]int // by mapped task whose list was evaluated
}

// judge computes the expected end of a run from the drawn flow, task by task,
// without a plan: the behaviour of each task is known, so its end follows from
// the ends of its dependencies.
type judge struct {
	f       *simFlow
	gen     int
	src     *source
	partial bool
	out     map[string]engine.Status
	cause   []engine.Status // by task: FAILED or TIMED_OUT if it failed, or the status that caused it
	settled []bool
	from    []int
	width   map[int]int
}

func (f *simFlow) judge(gen int, src *source) (verdict, *source) {
	j := &judge{
		f: f, gen: gen, src: src, out: map[string]engine.Status{}, width: map[int]int{},
		cause: make([]engine.Status, len(f.tasks)), settled: make([]bool, len(f.tasks)), from: make([]int, len(f.tasks)),
	}
	j.partial = src != nil && j.anythingReused()
	for i := range f.tasks {
		j.task(i)
	}
	v := verdict{run: engine.Succeeded, nodes: j.out}
	depended := map[int]bool{}
	for i := range f.tasks {
		for _, d := range f.tasks[i].deps {
			depended[d] = true
		}
	}
	for i := range f.tasks {
		switch {
		case depended[i]:
		case j.cause[i] == engine.Failed:
			v.run = engine.Failed
		case j.cause[i] == engine.TimedOut && v.run != engine.Failed:
			v.run = engine.TimedOut
		}
	}
	if v.run != engine.Succeeded && f.onFailure != nil {
		j.out[f.onFailure.name] = ending(f.onFailure, gen, 0)
	}
	next := &source{nodes: j.out, from: map[int]int{}, width: j.width}
	for i, from := range j.from {
		next.from[i] = from
	}
	return v, next
}

// anythingReused reports whether a retry from failed reuses anything.
func (j *judge) anythingReused() bool {
	found := false
	for i := range j.f.tasks {
		upstream := true
		for _, d := range j.f.tasks[i].deps {
			upstream = upstream && j.settled[d]
		}
		st := j.src.nodes[j.f.tasks[i].name]
		good := st == engine.Succeeded || st == engine.Reused
		j.settled[i] = upstream && (good || st == engine.Skipped)
		found = found || upstream && good
		for k := range j.src.width[i] {
			inst := j.src.nodes[instance(&j.f.tasks[i], k)]
			found = found || upstream && !j.settled[i] && (inst == engine.Succeeded || inst == engine.Reused)
		}
	}
	return found
}

// simMaxWidth is the largest number of elements of a map.
const simMaxWidth = 10_000

func instance(t *simTask, i int) string { return fmt.Sprintf("%s[%d]", t.name, i) }

// ending returns the status with which a task or instance ends by its own
// behaviour.
func ending(t *simTask, gen, index int) engine.Status {
	if t.killed(gen, index) >= worker.MaxLost {
		return engine.Failed
	}
	if t.unknown {
		return engine.Failed
	}
	if t.wait > 0 {
		return engine.Succeeded
	}
	for try := 1; ; try++ {
		a := t.act(gen, index, try)
		switch {
		case a == actSucceed || a == actSlow:
			return engine.Succeeded
		case a == actFinal:
			return engine.Failed
		case a == actStuck: // no other try may run concurrently
			return engine.TimedOut
		case try <= t.retries:
		case a == actHang:
			return engine.TimedOut
		default:
			return engine.Failed
		}
	}
}

func (j *judge) task(i int) {
	t := &j.f.tasks[i]
	j.from[i] = j.gen
	if j.partial && j.settled[i] {
		j.from[i] = j.src.from[i]
		j.out[t.name] = engine.Reused
		if j.src.nodes[t.name] == engine.Skipped {
			j.out[t.name] = engine.Skipped
		} else if w, ok := j.src.width[i]; ok {
			j.width[i] = w
		}
		return
	}
	var failed, timedOut, skipped int
	for _, d := range t.deps {
		switch {
		case j.cause[d] == engine.Failed:
			failed++
		case j.cause[d] == engine.TimedOut:
			timedOut++
		case j.out[j.f.tasks[d].name] == engine.Skipped:
			skipped++
		}
	}
	any := failed+timedOut > 0
	switch {
	case t.rule == "one_failed" && !any, t.rule == "all_success" && !any && skipped > 0:
		j.out[t.name] = engine.Skipped
	case any && (t.rule == "all_success" || t.rule == "none_failed"):
		j.out[t.name], j.cause[i] = engine.UpstreamFailed, engine.Failed
		if failed == 0 {
			j.cause[i] = engine.TimedOut
		}
	default:
		j.runs(i)
	}
}

// runs handles a task whose rule holds.
func (j *judge) runs(i int) {
	t := &j.f.tasks[i]
	good := func(d int) bool {
		st := j.out[j.f.tasks[d].name]
		return st == engine.Succeeded || st == engine.Reused
	}
	gathered := func(d int) bool { // a map has its list, whatever the statuses of its instances
		_, ok := j.width[d]
		return ok
	}
	switch {
	case t.cond == "never", t.cond == "status" && !good(t.condOn), t.cond == "output" && !good(t.condOn) && !gathered(t.condOn):
		j.out[t.name] = engine.Skipped
		return
	case t.cond == "wrong", (t.cond == "output" || t.cond == "status") && j.f.unreadable(t.condOn, j.from[t.condOn]) && good(t.condOn):
		j.end(i, engine.Failed) // it cannot be evaluated
		return
	case !t.mapped():
		j.end(i, ending(t, j.gen, 0))
		return
	case !good(t.mapOn) && !gathered(t.mapOn):
		j.end(i, engine.Failed) // there is no list to map over
		return
	}
	width := j.f.list(t.mapOn, j.from[t.mapOn])
	if j.f.tasks[t.mapOn].mapped() {
		width = j.width[t.mapOn]
	}
	if width > simMaxWidth {
		j.end(i, engine.Failed)
		return
	}
	status := engine.Succeeded
	if width > 0 {
		j.width[i] = width
	}
	for k := range width {
		name := instance(t, k)
		st := ending(t, j.gen, k)
		if j.instanceReused(i, k, width) {
			st = engine.Reused
		}
		j.out[name] = st
		switch {
		case st == engine.Failed:
			status = engine.Failed
		case st == engine.TimedOut && status != engine.Failed:
			status = engine.TimedOut
		}
	}
	j.end(i, status)
}

func (j *judge) instanceReused(i, k, width int) bool {
	if !j.partial || j.src.width[i] != width {
		return false
	}
	for _, d := range j.f.tasks[i].deps {
		if !j.settled[d] {
			return false
		}
	}
	st := j.src.nodes[instance(&j.f.tasks[i], k)]
	return st == engine.Succeeded || st == engine.Reused
}

func (j *judge) end(i int, st engine.Status) {
	j.out[j.f.tasks[i].name] = st
	if st == engine.Failed || st == engine.TimedOut {
		j.cause[i] = st
	}
}
