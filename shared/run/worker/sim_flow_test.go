package worker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// act is the behaviour of one try of a task.
type act int

const (
	actSucceed act = iota
	actSlow        // succeeds after most of its time
	actFail
	actFinal // fails permanently
	actHang  // exceeds its timeout_secs
	actPanic // the executor panics
	actStuck // exceeds its timeout_secs, and ignores the end of its context
)

// Generations of a history: a run, its retry, and the retry of that.
const generations = 3

// simTask is a task of a drawn flow, with its behaviour.
type simTask struct {
	name    string
	deps    []int
	rule    string
	wait    int // seconds, of a task of type wait
	retries int
	delay   int // seconds before the first retry
	timeout int
	cond    string // kind of condition, "" for none
	condOn  int    // the dependency that it refers to
	mapOn   int    // the dependency whose list it maps over; -1: not mapped
	large   bool   // its output is stored as an object
	fat     bool   // the elements of the list in its output are long
	huge    bool   // its output is larger than expressions may read
	defers  int    // how often its executor cannot begin it
	unknown bool   // no executor has its type
	kills   int    // in the first generation, its process dies until so many leases were lost
	lines   int    // log lines that it writes
	widths  [generations]int
	acts    [generations][][]act // by instance (one of a plain task), then by try
}

func (t *simTask) mapped() bool { return t.mapOn >= 0 }

// act returns the behaviour of a try, from 1. The last one drawn repeats.
func (t *simTask) act(gen, index, try int) act {
	of := t.acts[gen][index%len(t.acts[gen])]
	return of[min(try, len(of))-1]
}

// killed returns how many leases an instance loses in a generation because its
// process dies.
func (t *simTask) killed(gen, index int) int {
	if gen > 0 || index > 0 {
		return 0
	}
	return t.kills
}

// simFlow is a drawn flow.
type simFlow struct {
	tasks     []simTask
	onFailure *simTask
	deadline  int
}

func plainTask(i int, deps []int, acts []act) simTask {
	t := simTask{name: fmt.Sprintf("t%d", i), deps: deps, rule: "all_success", timeout: 20, delay: 3, mapOn: -1}
	for gen := range generations {
		t.acts[gen] = [][]act{acts}
	}
	return t
}

// list returns the length of the list in a task's output: that of its widest
// map, so that all its maps find their elements. A map over a map takes its
// outputs.
func (f *simFlow) list(task, gen int) int {
	n := 0
	for i := range f.tasks {
		if f.tasks[i].mapOn == task && !f.tasks[task].mapped() {
			n = max(n, f.tasks[i].widths[gen])
		}
	}
	return n
}

// element returns one of the elements of that list, as JSON.
func (f *simFlow) element(task, i int) string {
	if f.tasks[task].fat {
		return fmt.Sprintf(`"%d%s"`, i, strings.Repeat(".", simFat))
	}
	return fmt.Sprint(i)
}

// simFat is the length of a long element.
const simFat = 9_000

// unreadable reports whether a task's output is larger than expressions may
// read. It applies to expressions that name the task only for its status as
// well.
func (f *simFlow) unreadable(task, gen int) bool {
	t := &f.tasks[task]
	return t.huge || t.fat && f.list(task, gen)*simFat > 16<<20
}

// output returns the output of a try of a task.
func (f *simFlow) output(task, index, attempt, gen int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"task":%d,"index":%d,"attempt":%d,"gen":%d,"list":[`, task, index, attempt, gen)
	for i := range f.list(task, gen) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.element(task, i))
	}
	b.WriteString(`]`)
	pad := 0
	switch t := &f.tasks[task]; {
	case t.huge:
		pad = 17 << 20
	case t.large: // half of these are so large that expressions must wait for memory
		pad = 33_000 + task%2*40_000
	}
	if pad > 0 {
		b.WriteString(`,"pad":"`)
		b.WriteString(strings.Repeat("x", pad))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// spec returns the flow_spec.
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

// parameters returns the parameters of the flow's runs.
func (f *simFlow) parameters() map[string]json.RawMessage {
	for i := range f.tasks {
		if f.tasks[i].cond == "params" {
			return map[string]json.RawMessage{"n": json.RawMessage("1"), "pad": json.RawMessage(`"` + strings.Repeat("p", 2_000) + `"`)}
		}
	}
	return nil
}

// parameters returns the parameters of the runs of a history.
func (h *simHistory) parameters() map[string]json.RawMessage {
	out := h.flow.parameters()
	if h.bigInput {
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out["big"] = json.RawMessage(`"` + strings.Repeat("b", 40_000) + `"`)
	}
	return out
}

// Growth of the delays between tries.
const (
	simFactor   = 3
	simMostWait = 1200 // seconds
)

// retryDelay returns the delay after a task's n-th try.
func (t *simTask) retryDelay(n int) time.Duration {
	secs := t.delay
	for range n - 1 {
		secs *= simFactor
	}
	return time.Duration(min(secs, simMostWait)) * time.Second
}

func (f *simFlow) task(t *simTask) map[string]any {
	out := map[string]any{
		"name": t.name, "type": "python", "entrypoint": "m:f", "retries": t.retries, "timeout_secs": t.timeout, "trigger_rule": t.rule,
		"retry_backoff": map[string]any{"delay_secs": t.delay, "factor": simFactor, "max_secs": simMostWait},
	}
	if t.wait > 0 {
		out["type"], out["config"] = "wait", map[string]any{"seconds": t.wait}
		delete(out, "entrypoint")
	}
	if t.unknown {
		out["type"], out["config"] = "http", map[string]any{"method": "GET", "url": "http://localhost/"}
		delete(out, "entrypoint")
	}
	var deps []string
	for _, d := range t.deps {
		deps = append(deps, f.tasks[d].name)
	}
	if deps == nil {
		return out
	}
	out["depends_on"] = deps
	on := f.tasks[t.condOn].name
	switch t.cond {
	case "never":
		out["condition"] = "1 == 2"
	case "output":
		out["condition"] = "tasks." + on + ".output != null"
	case "wrong":
		out["condition"] = "tasks." + on + ".status > 1"
	case "params":
		out["condition"] = "params.n == 1"
	case "status":
		out["condition"] = "tasks." + on + `.status == "SUCCEEDED"`
	}
	if t.mapped() {
		list := "tasks." + f.tasks[t.mapOn].name + ".output"
		if !f.tasks[t.mapOn].mapped() {
			list += ".list"
		}
		out["map_over"] = list
	}
	return out
}
