package conductor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
)

// act is what one try of a task does.
type act int

const (
	actSucceed act = iota
	actSlow        // succeeds after most of its time
	actFail
	actFinal // fails in a way that no retry mends
	actHang  // passes its timeout_secs
)

// The generations of a history: a run, and the retry of it.
const generations = 2

// simTask is a task of a drawn flow, with what it will do.
type simTask struct {
	name    string
	deps    []int
	rule    string
	wait    bool // a task of type wait
	retries int
	timeout int
	cond    string // kind of condition, "" for none
	condOn  int    // the dependency it looks at
	mapOn   int    // the dependency whose list it maps over; -1: not mapped
	large   bool   // its output goes to the object store
	widths  [generations]int
	acts    [generations][][]act // by instance (one of a plain task), then by try
}

func (t *simTask) mapped() bool { return t.mapOn >= 0 }

// act is what a try does, from 1; tries beyond those drawn repeat.
func (t *simTask) act(gen, index, try int) act {
	of := t.acts[gen][index%len(t.acts[gen])]
	return of[min(try, len(of))-1]
}

// simFlow is a drawn flow.
type simFlow struct {
	tasks     []simTask
	onFailure *simTask
	deadline  int
}

// simHistory is all that is drawn before it is played. The order in which things
// happen and what fails is drawn from the seed while it is played.
type simHistory struct {
	flow      simFlow
	seed      uint64
	rates     faults.Rates
	processes int
	sole      bool // a process that starts voids the leases of those before
	power     bool // a crash is a power cut, of a machine whose commits wait for the disk
	lambda    bool // processes keep nothing between messages, and have a limit
	crashes   int
	pauses    bool
	cancel    []time.Duration // after the start, one for each generation that is cancelled
	retry     bool
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
		task.name, task.retries = "cleanup", 1
		f.onFailure = &task
	}
	if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
		f.deadline = rapid.IntRange(1, 90).Draw(t, "deadline_secs")
	}
	return f
}

var simRules = []string{"all_success", "all_success", "all_done", "one_failed", "none_failed"}

func plainTask(i int, deps []int, acts []act) simTask {
	t := simTask{name: fmt.Sprintf("t%d", i), deps: deps, rule: "all_success", timeout: 20, mapOn: -1}
	for gen := range generations {
		t.acts[gen] = [][]act{acts}
	}
	return t
}

func drawActs(t *rapid.T, tries int) []act {
	return rapid.SliceOfN(rapid.SampledFrom([]act{actSucceed, actSucceed, actSucceed, actSucceed, actSlow, actFail, actFail, actFinal, actHang}), tries, tries).Draw(t, "acts")
}

func drawTask(t *rapid.T, before []simTask, i int) simTask {
	task := plainTask(i, nil, nil)
	for d := range before {
		if rapid.IntRange(0, 2).Draw(t, "dep") == 0 && len(task.deps) < 4 {
			task.deps = append(task.deps, d)
		}
	}
	task.rule = rapid.SampledFrom(simRules).Draw(t, "rule")
	task.retries = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "retries")
	task.wait = rapid.IntRange(0, 9).Draw(t, "wait") == 0
	task.large = rapid.IntRange(0, 19).Draw(t, "large") == 0
	if len(task.deps) > 0 {
		task.condOn = rapid.SampledFrom(task.deps).Draw(t, "on")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			task.cond = rapid.SampledFrom([]string{"never", "output", "status"}).Draw(t, "condition")
		case 1, 2:
			if !before[task.condOn].mapped() && !before[task.condOn].wait && !task.wait {
				task.mapOn = task.condOn
			}
		}
	}
	for gen := range generations {
		task.acts[gen] = nil
		if task.mapped() {
			task.widths[gen] = rapid.SampledFrom([]int{0, 1, 2, 3, 5, 65}).Draw(t, "width")
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

// list is the length of the list that a task's output carries: that of the
// widest map over it, so that all of one task's maps find their elements.
func (f *simFlow) list(task, gen int) int {
	n := 0
	for i := range f.tasks {
		if f.tasks[i].mapOn == task {
			n = max(n, f.tasks[i].widths[gen])
		}
	}
	return n
}

// width is how many instances a mapped task has in a generation whose list is
// that of generation from.
func (f *simFlow) width(task, from int) int { return f.list(f.tasks[task].mapOn, from) }

// output is what a try of a task hands on.
func (f *simFlow) output(task, index, attempt, gen int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"task":%d,"index":%d,"attempt":%d,"gen":%d,"list":[`, task, index, attempt, gen)
	for i := range f.list(task, gen) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
	}
	b.WriteString(`]`)
	if f.tasks[task].large {
		fmt.Fprintf(&b, `,"pad":%q`, strings.Repeat("x", 33_000))
	}
	b.WriteByte('}')
	return b.String()
}

// spec writes the flow_spec.
func (f *simFlow) spec() string {
	doc := map[string]any{}
	var tasks []any
	for i := range f.tasks {
		tasks = append(tasks, f.task(&f.tasks[i]))
	}
	doc["tasks"] = tasks
	if f.onFailure != nil {
		task := f.task(f.onFailure)
		delete(task, "trigger_rule")
		doc["on_failure"] = task
	}
	if f.deadline > 0 {
		doc["timeout_secs"] = f.deadline
	}
	raw, _ := json.Marshal(doc)
	return string(raw)
}

func (f *simFlow) task(t *simTask) map[string]any {
	out := map[string]any{
		"name": t.name, "type": "python", "entrypoint": "m:f", "retries": t.retries, "timeout_secs": t.timeout, "trigger_rule": t.rule,
		"retry_backoff": map[string]any{"delay_secs": 3, "factor": 3, "max_secs": 1200},
	}
	if t.wait {
		out["type"], out["config"] = "wait", map[string]any{"seconds": 12}
		delete(out, "entrypoint")
	}
	var deps []string
	for _, d := range t.deps {
		deps = append(deps, f.tasks[d].name)
	}
	if deps != nil {
		out["depends_on"] = deps
		on := f.tasks[t.condOn].name
		switch t.cond {
		case "never":
			out["condition"] = "1 == 2"
		case "output":
			out["condition"] = "tasks." + on + ".output != null"
		case "status":
			out["condition"] = "tasks." + on + `.status == "SUCCEEDED"`
		}
		if t.mapped() {
			out["map_over"] = "tasks." + f.tasks[t.mapOn].name + ".output.list"
		}
	}
	return out
}
