package bench

import "fmt"

// succeeded is the status of a successful run or task.
const succeeded = "SUCCEEDED"

// flow is a flow version, as in the body of POST /flows.
type flow struct {
	Name    string `json:"flow_name"`
	Version string `json:"flow_version"`
	Spec    struct {
		Tasks []task `json:"tasks"`
	} `json:"flow_spec"`
}

// task is one task of a flow_spec.
type task struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Entrypoint string         `json:"entrypoint,omitempty"`
	DependsOn  []string       `json:"depends_on,omitempty"`
	MapOver    string         `json:"map_over,omitempty"`
	Config     map[string]any `json:"config,omitempty"`
}

func newFlow(name string, tasks ...task) flow {
	f := flow{Name: name, Version: "1"}
	f.Spec.Tasks = tasks
	return f
}

// run returns the body of POST /runs.
func (f flow) run() map[string]any {
	return map[string]any{"flow_name": f.Name, "flow_version": f.Version}
}

// transform returns a trivial task.
func transform(name, expression string, after ...string) task {
	return task{Name: name, Type: "transform", DependsOn: after, Config: map[string]any{"expression": expression}}
}

func single() flow { return newFlow("single", transform("only", "1")) }

// chain returns a flow of n tasks in sequence.
func chain(n int) flow {
	tasks := []task{transform("t0", "1")}
	for i := 1; i < n; i++ {
		tasks = append(tasks, transform(fmt.Sprintf("t%d", i), "1", fmt.Sprintf("t%d", i-1)))
	}
	return newFlow(fmt.Sprintf("chain-%d", n), tasks...)
}

// fan returns a flow of n tasks in total: one, its parallel dependents, and
// their join.
func fan(n int) flow {
	tasks, names := []task{transform("root", "1")}, []string{}
	for i := range n - 2 {
		names = append(names, fmt.Sprintf("p%d", i))
		tasks = append(tasks, transform(names[i], "1", "root"))
	}
	return newFlow(fmt.Sprintf("fan-%d", n), append(tasks, transform("join", "1", names...))...)
}

// parallel returns a flow of n parallel tasks and their join.
func parallel(n int) flow {
	var tasks []task
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("p%d", i))
		tasks = append(tasks, transform(names[i], "1"))
	}
	return newFlow(fmt.Sprintf("parallel-%d", n), append(tasks, transform("join", "1", names...))...)
}

// mapped returns a flow with a map of n instances, the task that returns its
// list, and a join.
func mapped(n int) flow {
	each := transform("each", "item", "list")
	each.MapOver = "tasks.list.output"
	return newFlow(fmt.Sprintf("map-%d", n),
		transform("list", fmt.Sprintf("lists.range(%d)", n)), each, transform("join", "size(tasks.each.output)", "each"))
}
