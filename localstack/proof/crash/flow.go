package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"millrace/shared/run/engine"
)

// kind is what a task does.
type kind string

const (
	value   kind = "value"       // an expression
	faulty  kind = "faulty"      // an expression that cannot be evaluated
	wait    kind = "wait"        // a fraction of a second
	call    kind = "call"        // calls the page
	shaky   kind = "shaky"       // calls the page, which fails once
	down    kind = "down"        // calls the page, which fails until the run is repaired
	python  kind = "python"      // a function
	pyShaky kind = "python-once" // a function that fails in its first attempt
	pyStuck kind = "python-late" // a function that exceeds its timeout_secs
	pyEach  kind = "python-each" // a function of one element
)

// task is a task of a drawn flow. Its result depends only on the drawing and on
// whether its run is repaired.
type task struct {
	name    string
	kind    kind
	deps    []int
	rule    engine.Rule
	retries int
	never   bool // its condition is false
	width   int  // of its list; -1: not mapped
	bad     int  // index of the failing instance; -1: none
}

// flow is a drawn flow.
type flow struct {
	name      string
	tasks     []task
	onFailure bool
	deadline  int // timeout_secs, exceeded by every run; 0: none
}

func (f *flow) code() bool {
	for _, t := range f.tasks {
		switch t.kind {
		case python, pyShaky, pyStuck, pyEach:
			return true
		}
	}
	return false
}

var rules = []engine.Rule{engine.AllSuccess, engine.AllSuccess, engine.AllSuccess, engine.AllDone, engine.OneFailed, engine.NoneFailed}

// drawFlows draws the flows of a history: some fixed shapes, and graphs with
// all kinds of tasks.
func drawFlows(rng *rand.Rand) []*flow {
	flows := []*flow{
		{name: "chain", tasks: chain(20, value)},
		{name: "wide", tasks: fan(130, value)},
		{name: "mapped", tasks: []task{
			plain(0, value), mapped(1, value, 150, -1, 0), plain(2, value, 1), mapped(3, value, 70, 3, 0), plain(4, value, 3), mapped(5, value, 0, -1),
		}},
		{name: "waits", tasks: []task{plain(0, wait), plain(1, wait), plain(2, value, 0, 1)}},
		{name: "late", tasks: []task{plain(0, wait), plain(1, value, 0)}, deadline: 2},
		{name: "repair", tasks: []task{
			plain(0, value), mapped(1, value, 5, -1), plain(2, down, 0, 1), plain(3, value, 2), mapped(4, value, 3, 1, 0), plain(5, call),
		}, onFailure: true},
		{name: "code", tasks: chain(3, python)},
		{name: "code-mapped", tasks: []task{plain(0, value), mapped(1, pyEach, 6, -1, 0), plain(2, pyShaky, 1), plain(3, pyStuck)}},
	}
	for i := range 24 {
		flows = append(flows, drawFlow(rng, fmt.Sprintf("drawn-%d", i)))
	}
	return flows
}

func plain(i int, k kind, deps ...int) task {
	t := task{name: fmt.Sprint("t", i), kind: k, deps: deps, rule: engine.AllSuccess, width: -1, bad: -1}
	if k == shaky || k == pyShaky {
		t.retries = 3
	}
	return t
}

func mapped(i int, k kind, width, bad int, deps ...int) task {
	t := plain(i, k, deps...)
	t.width, t.bad = width, bad
	return t
}

func chain(n int, k kind) []task {
	tasks := []task{plain(0, k)}
	for i := 1; i < n; i++ {
		tasks = append(tasks, plain(i, k, i-1))
	}
	return tasks
}

func fan(n int, k kind) []task {
	tasks := []task{plain(0, k)}
	var all []int
	for i := range n {
		tasks = append(tasks, plain(i+1, k, 0))
		all = append(all, i+1)
	}
	return append(tasks, plain(n+1, k, all...))
}

func drawFlow(rng *rand.Rand, name string) *flow {
	kinds := []kind{value, value, value, value, value, faulty, wait, call, shaky, down}
	if rng.IntN(4) == 0 {
		kinds = append(kinds, python, pyShaky)
	}
	f := &flow{name: name, onFailure: rng.IntN(3) == 0}
	for i := range 1 + rng.IntN(10) {
		t := plain(i, kinds[rng.IntN(len(kinds))])
		for d := range i {
			if rng.IntN(3) == 0 && len(t.deps) < 4 {
				t.deps = append(t.deps, d)
			}
		}
		if t.rule = rules[rng.IntN(len(rules))]; len(t.deps) == 0 {
			t.rule = engine.AllSuccess
		}
		if t.retries == 0 && t.kind != pyStuck {
			t.retries = rng.IntN(2)
		}
		t.never = rng.IntN(12) == 0
		if t.kind == value && rng.IntN(5) == 0 {
			t.width = []int{0, 1, 3, 8, 66}[rng.IntN(5)]
			if t.width > 0 && rng.IntN(3) == 0 {
				t.bad = rng.IntN(t.width)
			}
		}
		f.tasks = append(f.tasks, t)
	}
	return f
}

// spec returns the flow_spec. page is the address for calls.
func (f *flow) spec(page string) map[string]any {
	var tasks []map[string]any
	for _, t := range f.tasks {
		tasks = append(tasks, f.task(t, page))
	}
	out := map[string]any{"tasks": tasks}
	if f.onFailure {
		out["on_failure"] = map[string]any{"name": "cleanup", "type": "transform", "config": map[string]any{"expression": "1"}}
	}
	if f.deadline > 0 {
		out["timeout_secs"] = f.deadline
	}
	return out
}

func (f *flow) task(t task, page string) map[string]any {
	out := map[string]any{
		"name": t.name, "retries": t.retries, "trigger_rule": string(t.rule), "timeout_secs": 20,
		"retry_backoff": map[string]any{"delay_secs": 0.2, "factor": 1, "max_secs": 1},
	}
	url := page + "/" + string(t.kind) + "/${{ params.tag }}/" + t.name
	switch t.kind {
	case value:
		out["type"], out["config"] = "transform", map[string]any{"expression": "1"}
		if t.width >= 0 {
			expression := "item * 2"
			if t.bad >= 0 {
				expression = fmt.Sprintf("item == %d ? params.absent : item", t.bad)
			}
			out["config"] = map[string]any{"expression": expression}
		}
	case faulty:
		out["type"], out["config"] = "transform", map[string]any{"expression": "params.absent"}
	case wait:
		seconds := 0.3
		if f.deadline > 0 {
			seconds = 3600
		}
		out["type"], out["config"] = "wait", map[string]any{"seconds": seconds}
	case call, shaky, down:
		out["type"], out["config"] = "http", map[string]any{"url": url}
	default:
		out["type"], out["entrypoint"] = "python", "flow:"+map[kind]string{python: "step", pyShaky: "once", pyStuck: "stuck", pyEach: "each"}[t.kind]
		if t.kind == pyStuck {
			out["timeout_secs"] = 1
		}
	}
	if t.width >= 0 {
		out["map_over"] = fmt.Sprintf("lists.range(%d)", t.width)
	}
	if t.never {
		out["condition"] = "1 == 2"
	}
	var deps []string
	for _, d := range t.deps {
		deps = append(deps, f.tasks[d].name)
	}
	if deps != nil {
		out["depends_on"] = deps
	}
	return out
}

func (f *flow) json(page string) json.RawMessage {
	raw, err := json.Marshal(f.spec(page))
	if err != nil {
		panic(err) // strings and numbers
	}
	return raw
}

// source is flow.py: each function reports its beginning and its end to the
// page, and waits for the response.
const source = `
import socket, time

def note(what, ctx, index=-1):
    with socket.create_connection(("127.0.0.1", %s)) as line:
        line.sendall(("%%s %%s %%s %%d %%d\n" %% (what, ctx.run_id, ctx.task_name, index, ctx.attempt)).encode())
        line.recv(1)

def step(ctx):
    note("begin", ctx)
    time.sleep(0.02)
    print("at work")
    note("end", ctx)
    return ctx.attempt

def once(ctx):
    note("begin", ctx)
    if ctx.attempt == 1:
        raise RuntimeError("as drawn")
    note("end", ctx)

def stuck(ctx):
    note("begin", ctx)
    time.sleep(60)

def each(ctx, item, index):
    note("begin", ctx, index)
    note("end", ctx, index)
    return item
`
