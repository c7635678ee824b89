package flowspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"millrace/shared/platform/budget"
	"millrace/shared/run/expr"
)

// Flow is a valid flow_spec with its graph. It is immutable, shared by all runs
// and safe for concurrent use; callers must not modify what its methods return.
type Flow struct {
	Spec
	canonical  []byte
	hash       string
	byName     map[string]int
	deps       [][]int
	dependents [][]int
	order      []int
	ancestors  func() []bitset
	used       func() []bool
	schema     func(*budget.Budget) (*schema, error)
	result     func() (*expr.Template, error)
}

// Load returns the Flow of the canonical content of one that passed [Parse];
// kinds provide the defaults of its tasks. It checks only the graph; an error
// means that the content is damaged.
func Load(canonical []byte, kinds Kinds) (*Flow, error) {
	var spec Spec
	if err := json.Unmarshal(canonical, &spec); err != nil {
		return nil, fmt.Errorf("flowspec: %w", err)
	}
	f, err := newFlow(spec, canonical, kinds)
	if err != nil {
		return nil, err
	}
	if len(f.order) != len(f.Tasks) {
		return nil, fmt.Errorf("flowspec: %s", cycleText(f.findCycle()))
	}
	return f, nil
}

// newFlow indexes a spec. If there is a cycle, the order does not contain all
// tasks.
func newFlow(spec Spec, canonical []byte, kinds Kinds) (*Flow, error) {
	sum := sha256.Sum256(canonical)
	n := len(spec.Tasks)
	f := &Flow{
		Spec: spec, canonical: canonical, hash: hex.EncodeToString(sum[:]),
		byName: make(map[string]int, n), deps: make([][]int, n), dependents: make([][]int, n),
	}
	for i := range f.Tasks {
		f.Tasks[i].fill(kinds)
		f.byName[f.Tasks[i].Name] = i
	}
	if f.OnFailure != nil {
		f.OnFailure.fill(kinds)
	}
	edges := 0
	for i := range f.Tasks {
		edges += len(f.Tasks[i].DependsOn)
	}
	all := make([]int, 0, edges)
	for i := range f.Tasks {
		start := len(all)
		for _, name := range f.Tasks[i].DependsOn {
			d, ok := f.byName[name]
			if !ok {
				return nil, fmt.Errorf("flowspec: task %s depends on %s, which does not exist", f.Tasks[i].Name, name)
			}
			all = append(all, d)
			f.dependents[d] = append(f.dependents[d], i)
		}
		f.deps[i] = all[start:len(all):len(all)]
	}
	f.order = f.topological()
	f.ancestors = sync.OnceValue(f.closure)
	f.used = sync.OnceValue(f.readers)
	f.schema = compileLater(f.Parameters)
	f.result = sync.OnceValues(func() (*expr.Template, error) { return resultTemplate(budget.Unlimited(), f.Spec.Result) })
	return f, nil
}

// fill sets the defaults. A type that no longer exists has the general ones.
func (t *Task) fill(kinds Kinds) {
	if t.TriggerRule == "" {
		t.TriggerRule = DefaultRule
	}
	if t.TimeoutSecs == 0 {
		t.TimeoutSecs = DefaultTimeoutSecs
		if kind, known := kinds[t.Type]; known {
			t.TimeoutSecs = kind.DefaultTimeoutSecs
		}
	}
	config, inputs := t.Config, t.Inputs
	t.lazy = &lazyTask{
		template: sync.OnceValues(func() (*expr.Template, error) {
			if len(config) == 0 {
				return expr.CompileTemplate(json.RawMessage("{}"))
			}
			return expr.CompileTemplate(config)
		}),
		arguments: sync.OnceValues(func() (*Arguments, error) { return compileArguments(inputs) }),
	}
}

// lazyTask is compiled on first use: a worker runs few tasks of a flow.
type lazyTask struct {
	template  func() (*expr.Template, error)
	arguments func() (*Arguments, error)
}

// Template returns the task's config, an empty object if it has none.
func (t *Task) Template() (*expr.Template, error) { return t.lazy.template() }

// Canonical returns the registered flow_spec with sorted keys and without white
// space, as accepted by [Load].
func (f *Flow) Canonical() []byte { return f.canonical }

// Footprint returns an upper estimate of the memory in bytes of the flow with
// the plan, the schema and the templates that are built when it runs.
func (f *Flow) Footprint() int {
	edges := 0
	for _, d := range f.deps {
		edges += len(d)
	}
	return 2*len(f.canonical) + 40*len(f.Parameters) + 1024*len(f.Tasks) + 48*edges
}

// Hash returns the hex SHA-256 of the canonical content, which is the same for
// equal specs.
func (f *Flow) Hash() string { return f.hash }

// Index returns the index of a task in Tasks. ok is false for an unknown name
// and for the on_failure task.
func (f *Flow) Index(name string) (int, bool) {
	i, ok := f.byName[name]
	return i, ok
}

// Deps returns the tasks that task i depends on, in the order of its
// depends_on.
func (f *Flow) Deps(i int) []int { return f.deps[i] }

// Dependents returns the tasks that directly depend on task i, ascending.
func (f *Flow) Dependents(i int) []int { return f.dependents[i] }

// Order returns all tasks, each after those it depends on.
func (f *Flow) Order() []int { return f.order }

// Sinks returns the tasks without dependents, ascending.
func (f *Flow) Sinks() []int {
	var out []int
	for i, d := range f.dependents {
		if len(d) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// Ancestors yields the direct and transitive dependencies of task i, ascending.
func (f *Flow) Ancestors(i int) iter.Seq[int] { return f.ancestors()[i].all() }

// IsAncestor reports whether task i depends on task a, directly or indirectly.
func (f *Flow) IsAncestor(a, i int) bool { return f.ancestors()[i].has(a) }

// Used reports for each task whether an expression or a function may read its
// output. It may be true unnecessarily, but is never wrongly false.
func (f *Flow) Used() []bool { return f.used() }

func (f *Flow) readers() []bool {
	used := make([]bool, len(f.Tasks))
	upstream := make([]bool, len(f.Tasks)) // of a task with a function
	for _, i := range slices.Backward(f.order) {
		t := &f.Tasks[i]
		f.mark(used, t)
		if upstream[i] || t.Entrypoint != "" && !given(t.Inputs) {
			for _, d := range f.deps[i] {
				upstream[d] = true
			}
		}
	}
	f.markText(used, string(f.Spec.Result))
	everything := false
	if f.OnFailure != nil {
		f.mark(used, f.OnFailure)
		everything = f.OnFailure.Entrypoint != "" && !given(f.OnFailure.Inputs)
	}
	// A function's arguments may be the output of any upstream task.
	for i := range used {
		used[i] = used[i] || upstream[i] || everything
	}
	return used
}

// mark marks each task whose name occurs as a word in the text of a task's
// expressions. Compiling them would cost a hundred times as much.
func (f *Flow) mark(used []bool, t *Task) {
	for _, text := range []string{t.Condition, t.MapOver, string(t.Config), string(t.Inputs)} {
		f.markText(used, text)
	}
}

func (f *Flow) markText(used []bool, text string) {
	if !strings.Contains(text, "tasks") {
		return
	}
	if strings.Contains(text, `\`) { // an escape sequence may be part of a name
		for i := range used {
			used[i] = true
		}
		return
	}
	for _, separators := range []string{"_-", "_"} {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isWord(r, separators) }) {
			if i, ok := f.byName[word]; ok {
				used[i] = true
			}
		}
	}
}

func isWord(r rune, others string) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(others, r)
}
