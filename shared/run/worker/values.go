package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/runstate"
)

// MaxOutput is the largest output of a task, in bytes of JSON.
const MaxOutput = 256 << 20

// maxScope is the largest output that expressions may read, in bytes.
const maxScope = 16 << 20

// values reads the outputs of a run's tasks, for expressions and executors, and
// stores those of attempts.
type values struct{ *session }

// keepOutput stores an output, a small one in the item, and returns the actions
// that record it there. kept is for the cache after the item was written: an
// attempt that lost its lease must not pass on its output.
func (v values) keepOutput(ctx context.Context, n engine.Node, attempt int, out executor.Value) (do []table.Action, kept executor.Value, err error) {
	if out.Ref != "" {
		return refActions(out), out, nil
	}
	if len(out.JSON) == 0 {
		out.JSON = json.RawMessage("null")
	}
	if len(out.JSON) <= runstate.MaxInline {
		return []table.Action{table.Set(runstate.NodeOutput, string(out.JSON))}, out, nil
	}
	key := runstate.OutputKey(v.org, v.id, n, attempt)
	if _, err := blob.PutBytes(ctx, v.Blob, key, out.JSON, blob.PutOptions{ContentType: "application/json"}); err != nil {
		return nil, out, fmt.Errorf("store output: %w", err)
	}
	stored := executor.Value{JSON: out.JSON, Ref: key, Size: int64(len(out.JSON))}
	return refActions(stored), stored, nil
}

// refActions returns the actions that record an output in the object store.
func refActions(v executor.Value) []table.Action {
	return []table.Action{table.Set(runstate.NodeOutputRef, v.Ref), table.Set(runstate.NodeOutSize, v.Size)}
}

// outputOf returns the output of a finished task. Large outputs that are not in
// memory are returned as references.
func (v values) outputOf(ctx context.Context, task string) (executor.Value, error) {
	i, ok := v.flow.Index(task)
	if !ok {
		return executor.Value{}, fmt.Errorf("worker: no task %s in run %s", task, v.id)
	}
	n := engine.Node(i)
	if out, ok := v.cache.output(v.id, n); ok {
		return out, nil
	}
	item, err := v.node(ctx, n)
	if err != nil {
		return executor.Value{}, err
	}
	out := executor.Value{JSON: json.RawMessage("null")}
	switch {
	case item == nil:
	case item.OutputRef != "":
		out = executor.Value{Ref: item.OutputRef, Size: item.OutputSize}
	case item.Output != "":
		out.JSON = json.RawMessage(item.Output)
	}
	if item != nil && item.Status.Terminal() {
		v.cache.keep(v.id, n, out)
	}
	return out, nil
}

// holds evaluates a task's condition.
func (v values) holds(ctx context.Context, w *attempt) (bool, error) {
	program, err := expr.Compile(w.task.Condition)
	if err != nil {
		return false, fmt.Errorf("condition of %s: %w", w.task.Name, err)
	}
	scope, err := v.scope(ctx, program.Tasks())
	if err != nil {
		return false, err
	}
	return program.EvalBool(ctx, scope)
}

// scope returns what expressions see, with the outputs of the named tasks.
func (v values) scope(ctx context.Context, tasks []string) (expr.Scope, error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return expr.Scope{}, err
	}
	if v.base.Run == nil {
		if v.base, err = v.fixed(in); err != nil {
			return expr.Scope{}, err
		}
	}
	if err := v.reserveScope(ctx, tasks); err != nil {
		return expr.Scope{}, err
	}
	scope := v.base
	scope.Tasks = make(map[string]expr.TaskView, len(tasks))
	for _, name := range tasks {
		if scope.Tasks[name], err = v.view(ctx, name); err != nil {
			return expr.Scope{}, err
		}
	}
	return scope, nil
}

// Memory of outputs as expressions see them.
const (
	scopeBytes = 160 << 20 // of a process
	scopeSmall = 64 << 10  // size of JSON up to which a scope is not counted
)

// errMemory means that an attempt does not begin because it got no memory in
// time.
var errMemory = errors.New("worker: others hold the memory for outputs")

// reserveScope reserves the memory that the decoded outputs of the named tasks
// need, in place of the session's previous reservation. It waits no longer than
// a lease allows. Errors: errMemory; an [expr.EvalError] if it is more than the
// process has.
func (v values) reserveScope(ctx context.Context, tasks []string) error {
	v.releaseScope()
	size := int64(0)
	outputs := make([]executor.Value, len(tasks))
	for i, name := range tasks {
		var err error
		if outputs[i], err = v.outputOf(ctx, name); err != nil {
			return err
		}
		size += max(outputs[i].Size, int64(len(outputs[i].JSON)))
	}
	if size < scopeSmall {
		return nil
	}
	weight := int64(0)
	for i, name := range tasks {
		w, err := v.weigh(ctx, name, outputs[i])
		if err != nil {
			return err
		}
		weight += w
	}
	if weight > scopeBytes { //guard:scope/too-large false
		return &expr.EvalError{Msg: fmt.Sprintf("the outputs that it reads (%s) take %d MB of memory, and expressions have %d MB",
			strings.Join(tasks, ", "), weight>>20, scopeBytes>>20)}
	}
	release, err := v.reserve(ctx, weight)
	if err != nil {
		return err
	}
	v.scoped = release
	return nil
}

// weigh returns the memory of a decoded output.
func (v values) weigh(ctx context.Context, task string, out executor.Value) (int64, error) {
	if out.JSON != nil {
		return expr.Weight(out.JSON), nil
	}
	if out.Size > maxScope {
		return 0, tooLargeToRead(task, out.Size)
	}
	i, _ := v.flow.Index(task)
	id := outputID{v.id, engine.Node(i)}
	if weight, ok := v.cache.weights.Get(id); ok {
		return weight, nil
	}
	release, err := v.reserve(ctx, out.Size)
	if err != nil {
		return 0, err
	}
	defer release()
	raw, err := v.object(ctx, out.Ref)
	if err != nil {
		return 0, err
	}
	weight := expr.Weight(raw)
	v.cache.weights.Add(id, weight, 0)
	return weight, nil
}

// reserve reserves memory of the process.
func (v values) reserve(ctx context.Context, bytes int64) (release func(), err error) {
	limited, cancel := context.WithTimeout(ctx, 2*Heartbeat)
	defer cancel()
	if release, err = v.memory.acquire(limited, bytes); err != nil && ctx.Err() == nil {
		err = errMemory
	}
	return release, err
}

// hold reserves memory until the attempt is over, in place of the reservation
// for expressions.
func (v values) hold(ctx context.Context, bytes int64) error {
	v.releaseScope()
	release, err := v.memory.acquire(ctx, bytes)
	if err != nil {
		return err
	}
	v.scoped = release
	return nil
}

func tooLargeToRead(task string, size int64) error {
	return &expr.EvalError{Msg: fmt.Sprintf("the output of %s has %d bytes, expressions read at most %d", task, size, maxScope)}
}

// releaseScope releases the memory of the outputs read last.
func (v values) releaseScope() {
	if v.scoped != nil {
		v.scoped()
		v.scoped = nil
	}
}

// fixed returns the part of the scope that is the same for all tasks of the
// run. Expressions do not change it.
func (v values) fixed(in *runstate.Input) (scope expr.Scope, err error) {
	scope.Run = map[string]any{
		"run_id": v.id, "flow_name": v.run.Flow, "flow_version": v.run.Version,
		"environment": v.run.Environment, "logical_date": in.LogicalDate,
	}
	scope.Vars = make(map[string]any, len(in.Vars))
	for k, value := range in.Vars {
		scope.Vars[k] = value
	}
	if params, ok := v.cache.parameters(v.id); ok {
		scope.Params = params
		return scope, nil
	}
	scope.Params = make(map[string]any, len(in.Parameters))
	size := 0
	for k, raw := range in.Parameters {
		if scope.Params[k], err = expr.Decode(raw); err != nil {
			return expr.Scope{}, fmt.Errorf("parameter %s: %w", k, err)
		}
		size += len(raw)
	}
	v.cache.keepParameters(v.id, scope.Params, size)
	return scope, nil
}

// view returns a task as expressions see it.
func (v values) view(ctx context.Context, name string) (expr.TaskView, error) {
	value, err := v.outputOf(ctx, name)
	if err != nil {
		return expr.TaskView{}, err
	}
	if value.JSON == nil {
		if value.Size > maxScope {
			return expr.TaskView{}, tooLargeToRead(name, value.Size)
		}
		if value.JSON, err = v.object(ctx, value.Ref); err != nil {
			return expr.TaskView{}, err
		}
	}
	out, err := expr.Decode(value.JSON)
	if err != nil {
		return expr.TaskView{}, fmt.Errorf("output of %s: %w", name, err)
	}
	i, _ := v.flow.Index(name)
	status := engine.Succeeded
	item, err := v.status(ctx, engine.Node(i))
	if err != nil {
		return expr.TaskView{}, err
	}
	if item != "" && item != engine.Reused { // a reused task succeeded: a retry decides as its source did
		status = item
	}
	return expr.TaskView{Output: out, Status: string(status)}, nil
}

// status returns a finished task's status. A task whose output is in memory
// succeeded, unless it is a map, which has its list even if it failed. The item
// is read for other tasks only.
func (v values) status(ctx context.Context, n engine.Node) (engine.Status, error) {
	if out, ok := v.cache.output(v.id, n); ok && !v.flow.plan.Def(int(n)).Mapped && out.JSON != nil && string(out.JSON) != "null" {
		return engine.Succeeded, nil
	}
	item, err := v.node(ctx, n)
	if err != nil {
		return "", err
	}
	if item == nil {
		return engine.Pending, nil
	}
	return item.Status, nil
}

// evaluateList evaluates the list that a task is mapped over.
func (v values) evaluateList(ctx context.Context, w *attempt) ([]any, error) {
	program, err := expr.Compile(w.task.MapOver)
	if err != nil {
		return nil, fmt.Errorf("map_over of %s: %w", w.task.Name, err)
	}
	scope, err := v.scope(ctx, program.Tasks())
	if err != nil {
		return nil, err
	}
	return program.EvalList(ctx, scope)
}

// list returns the evaluated list of a mapped task.
func (v values) list(ctx context.Context, task int, item *runstate.Node) ([]json.RawMessage, error) {
	id := outputID{v.id, engine.Node(task)}
	if list, ok := v.cache.lists.Get(id); ok {
		return list, nil
	}
	raw := json.RawMessage(item.List)
	if item.ListRef != "" {
		var err error
		if raw, err = v.object(ctx, item.ListRef); err != nil {
			return nil, err
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read list of task %d: %w", task, err)
	}
	v.cache.keepList(v.id, id.node, list)
	return list, nil
}
