package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/runstate"
)

// Limits of descriptions of failures.
const (
	mostBlamed = 3   // tasks named in a run's error
	mostBlame  = 300 // bytes of each one's error
	// MaxFailures is the number of failures passed to the on_failure task.
	MaxFailures = 100
)

// failures is the failed tasks of a run whose tasks are all finished.
type failures struct {
	*session
	items map[engine.Node]*runstate.Node // of tasks: status, width and outcome
}

// failures reads the statuses of the run's tasks.
func (s *session) failures(ctx context.Context) (*failures, error) {
	f := &failures{s, map[engine.Node]*runstate.Node{}}
	span := runstate.Span{To: s.flow.plan.End()}
	return f, runstate.LoadSpan(ctx, s.Table, s.org, s.id, span, f.items,
		runstate.Only(runstate.NodeStatus, runstate.NodeWidth, runstate.NodeCarried))
}

// failed returns the tasks that failed by themselves, ascending.
func (f *failures) failed() []engine.Node {
	var out []engine.Node
	for n, item := range f.items {
		if hasFailed(item) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func hasFailed(item *runstate.Node) bool {
	return item.Status == engine.Failed || item.Status == engine.TimedOut
}

// decisive returns the failed tasks that determined the run's outcome,
// ascending: the sinks with that outcome, or the tasks that made them
// UPSTREAM_FAILED. Failures that a trigger rule tolerated are not included.
func (f *failures) decisive(worst engine.Outcome) []engine.Node {
	seen, found := map[int]bool{}, []engine.Node(nil)
	todo := slices.Clone(f.flow.Sinks())
	for len(todo) > 0 {
		task := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		item := f.items[engine.Node(task)]
		if seen[task] || item == nil || item.Outcome() != worst { //guard:blame/outcome drop operand 3
			continue
		}
		seen[task] = true
		if item.Status == engine.UpstreamFailed {
			todo = append(todo, f.flow.Deps(task)...)
			continue
		}
		found = append(found, engine.Node(task))
	}
	slices.Sort(found)
	return found
}

// instances returns the first failed instances of a map, and the number of all.
func (f *failures) instances(ctx context.Context, task engine.Node, width, most int) (first []engine.Node, count int, err error) {
	from, to, _, _ := f.flow.plan.MapNodes(int(task), width)
	for item, err := range runstate.SpanNodes(ctx, f.Table, f.org, f.id, runstate.Span{From: from, To: to}, runstate.Only(runstate.NodeStatus)) {
		if err != nil {
			return nil, 0, err
		}
		if !hasFailed(item) {
			continue
		}
		if count++; len(first) < most {
			first = append(first, item.Number())
		}
	}
	return first, count, nil
}

// blame names a failed task, or the first failed instance of a map, and its
// error.
func (f *failures) blame(ctx context.Context, n engine.Node) (string, error) {
	task := int(n)
	name, rest := f.flow.Tasks[task].Name, ""
	if width := f.items[n].Width; width != nil && *width > 0 {
		first, count, err := f.instances(ctx, n, *width, 1)
		if err != nil {
			return "", err
		}
		if count > 0 { // otherwise the map failed although its instances succeeded
			n = first[0]
			name = fmt.Sprintf("%s[%d]", name, n-f.flow.plan.Instance(task, 0))
			rest = fmt.Sprintf("; %d of %d instances failed", count, *width)
		}
	}
	item, err := f.node(ctx, n)
	if err != nil {
		return "", err
	}
	if item == nil {
		return "", fmt.Errorf("worker: node %d of run %s: %w", n, f.id, errNoItem)
	}
	why := item.Error
	if item.ErrorType != executor.TaskFailed {
		why = item.ErrorType + ": " + item.Error
	}
	return fmt.Sprintf("%s (%s%s)", name, runstate.Shorten(why, mostBlame), rest), nil
}

// verdict returns the error of a run that did not succeed: how many of its
// tasks failed, and which of them decided it.
func (f *failures) verdict(ctx context.Context, to engine.Status) (string, error) {
	decisive := f.decisive(to.Outcome())
	var blamed []string
	for _, n := range decisive[:min(len(decisive), mostBlamed)] {
		text, err := f.blame(ctx, n)
		if err != nil {
			return "", err
		}
		blamed = append(blamed, text)
	}
	text := fmt.Sprintf("%d of %d tasks failed: %s", len(f.failed()), len(f.flow.Tasks), strings.Join(blamed, ", "))
	if more := len(decisive) - len(blamed); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return clip(text), nil
}

// failedTask is a failed task, or instance of a map, as the on_failure task
// sees it.
type failedTask struct {
	TaskName     string `json:"task_name"`
	MapIndex     *int   `json:"map_index"`
	Attempt      int    `json:"attempt"`
	ErrorType    string `json:"error_type"`
	ErrorMessage string `json:"error_message"`
}

// list returns the failures for the on_failure task, in the order of the plan:
// the first MaxFailures tasks and instances, and the number of all.
func (f *failures) list(ctx context.Context) (*executor.Failures, error) {
	var nodes []engine.Node
	out := &executor.Failures{}
	for _, n := range f.failed() {
		if width := f.items[n].Width; width != nil && *width > 0 {
			first, count, err := f.instances(ctx, n, *width, MaxFailures-len(nodes))
			if err != nil {
				return nil, err
			}
			if nodes = append(nodes, first...); count > 0 {
				out.Count += count
				continue
			}
		}
		if out.Count++; len(nodes) < MaxFailures {
			nodes = append(nodes, n)
		}
	}
	list := make([]failedTask, 0, len(nodes))
	for some := range slices.Chunk(nodes, table.MaxBatchGet) {
		items, err := runstate.LoadAll(ctx, f.Table, f.org, f.id, some,
			runstate.Only(runstate.NodeAttempt, runstate.NodeErrorType, runstate.NodeError))
		if err != nil {
			return nil, err
		}
		for _, n := range some {
			item := items[n]
			ref, err := f.flow.plan.Ref(n)
			if err != nil || item == nil {
				return nil, fmt.Errorf("worker: node %d of run %s: %w", n, f.id, errNoItem)
			}
			told := failedTask{TaskName: f.flow.Tasks[ref.Task].Name, Attempt: max(item.Attempt, 1), ErrorType: item.ErrorType, ErrorMessage: item.Error}
			if ref.Kind == engine.KindInstance {
				told.MapIndex = &ref.Index
			}
			list = append(list, told)
		}
	}
	var err error
	out.List, err = json.Marshal(list)
	return out, err
}

// tellFailures passes the failures to the on_failure task, as an argument or in
// its expressions.
func (a *attempts) tellFailures(out *executor.Attempt) {
	out.Failed = func(ctx context.Context) (*executor.Failures, error) {
		f, err := a.failures(ctx)
		if err != nil {
			return nil, err
		}
		return f.list(ctx)
	}
	out.Scope = func(ctx context.Context, tasks []string) (expr.Scope, error) {
		scope, err := a.scope(ctx, tasks)
		if err != nil {
			return expr.Scope{}, err
		}
		told, err := out.Failed(ctx)
		if err != nil {
			return expr.Scope{}, err
		}
		list, err := expr.Decode(told.List)
		if err != nil {
			return expr.Scope{}, err
		}
		scope.Failed = &expr.Failed{Count: told.Count}
		scope.Failed.List, _ = list.([]any)
		return scope, nil
	}
}

// clipTraceback truncates a traceback to the length that a record stores. It
// keeps the end, which is the most informative part.
func clipTraceback(s string) string {
	if len(s) <= runstate.MaxTraceback {
		return s
	}
	s = s[len(s)-runstate.MaxTraceback:]
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		s = rest
	}
	return "…\n" + strings.ToValidUTF8(s, "")
}
