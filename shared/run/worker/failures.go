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

// The bounds of what is told of failures.
const (
	mostBlamed = 3   // tasks that a run's error names
	mostBlame  = 300 // bytes of the error of each
	// MostFailed is how many failures the on_failure task is told of.
	MostFailed = 100
)

// failures tells which tasks of a run failed, once all of them are finished.
type failures struct {
	*session
	items map[engine.Node]*runstate.Node // of the tasks: status, width and outcome
}

// failures reads how the tasks of the run ended.
func (s *session) failures(ctx context.Context) (*failures, error) {
	f := &failures{s, map[engine.Node]*runstate.Node{}}
	span := runstate.Span{To: s.flow.plan.End()}
	return f, runstate.LoadSpan(ctx, s.Table, s.org, s.id, span, f.items,
		runstate.Only(runstate.NodeStatus, runstate.NodeWidth, runstate.NodeCarried))
}

// failed lists the tasks that failed by themselves, ascending.
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

// decisive lists the failed tasks that gave the run its outcome, ascending: the
// sinks with that outcome, or what made them UPSTREAM_FAILED. A failure that a
// trigger rule tolerated is none of them.
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

// instances lists the first failed instances of a map, and counts all.
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

// blame names a failed task, or the first failed instance of a map, and says why
// it failed.
func (f *failures) blame(ctx context.Context, n engine.Node) (string, error) {
	task := int(n)
	name, rest := f.flow.Tasks[task].Name, ""
	if width := f.items[n].Width; width != nil && *width > 0 {
		first, count, err := f.instances(ctx, n, *width, 1)
		if err != nil {
			return "", err
		}
		if count > 0 { // or the map failed although its instances succeeded
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
	return fmt.Sprintf("%s (%s%s)", name, shorten(why, mostBlame), rest), nil
}

// verdict is the error of a run that ends with a status other than SUCCEEDED: how
// many of its tasks failed, and those that decided it.
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

// failedTask is a task, or an instance of a map, that failed, as the on_failure
// task is told of it.
type failedTask struct {
	TaskName     string `json:"task_name"`
	MapIndex     *int   `json:"map_index"`
	Attempt      int    `json:"attempt"`
	ErrorType    string `json:"error_type"`
	ErrorMessage string `json:"error_message"`
}

// list tells the on_failure task of what failed, in the order of the plan: the
// first MostFailed tasks and instances, and how many there are.
func (f *failures) list(ctx context.Context) (*executor.Failures, error) {
	var nodes []engine.Node
	out := &executor.Failures{}
	for _, n := range f.failed() {
		if width := f.items[n].Width; width != nil && *width > 0 {
			first, count, err := f.instances(ctx, n, *width, MostFailed-len(nodes))
			if err != nil {
				return nil, err
			}
			if nodes = append(nodes, first...); count > 0 {
				out.Count += count
				continue
			}
		}
		if out.Count++; len(nodes) < MostFailed {
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

// tellFailures has the on_failure task see what failed: as an argument, or in its
// expressions.
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

// clipTraceback cuts a traceback to what a record keeps: its end tells most.
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

// shorten makes one line of a message, of so many bytes at most.
func shorten(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
