package conductor

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/expr"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// MaxOutput is the most bytes of JSON a task may hand on.
const MaxOutput = 256 << 20

// maxScope is the most bytes of one output that expressions may read.
const maxScope = 16 << 20

// keepOutput stores an output, small ones in the item, and returns the actions
// that note it there. What it returns as kept is for the cache, once the item is
// written: an attempt that lost its lease must not pass its output on.
func (s *session) keepOutput(ctx context.Context, n engine.Node, attempt int, v executor.Value) (do []table.Action, kept executor.Value, err error) {
	if v.Ref != "" {
		return refActions(v), v, nil
	}
	if len(v.JSON) == 0 {
		v.JSON = json.RawMessage("null")
	}
	if len(v.JSON) <= runstate.MaxInline {
		return []table.Action{table.Set(runstate.NodeOutput, string(v.JSON))}, v, nil
	}
	key := runstate.Object(s.org, s.id, fmt.Sprintf("out/%d-%d.json", n, attempt))
	if _, err := blob.PutBytes(ctx, s.Blob, key, v.JSON, blob.PutOptions{ContentType: "application/json"}); err != nil {
		return nil, v, fmt.Errorf("store output: %w", err)
	}
	stored := executor.Value{JSON: v.JSON, Ref: key, Size: int64(len(v.JSON))}
	return refActions(stored), stored, nil
}

// refActions note an output that stands in the object store.
func refActions(v executor.Value) []table.Action {
	return []table.Action{table.Set(runstate.NodeOutputRef, v.Ref), table.Set(runstate.NodeOutSize, v.Size)}
}

// outputOf is what a finished task handed on. Large outputs that are not in
// memory stay in the object store.
func (s *session) outputOf(ctx context.Context, task string) (executor.Value, error) {
	i, ok := s.flow.Index(task)
	if !ok {
		return executor.Value{}, fmt.Errorf("conductor: no task %s in run %s", task, s.id)
	}
	n := engine.Node(i)
	if v, ok := s.cache.output(s.id, n); ok {
		return v, nil
	}
	item, err := runstate.LoadNode(ctx, s.Table, s.org, s.id, n)
	if err != nil {
		return executor.Value{}, err
	}
	v := executor.Value{JSON: json.RawMessage("null")}
	switch {
	case item == nil:
	case item.OutputRef != "":
		v = executor.Value{Ref: item.OutputRef, Size: item.OutputSize}
	case item.Output != "":
		v.JSON = json.RawMessage(item.Output)
	}
	if item != nil && item.Status.Terminal() {
		s.cache.keep(s.id, n, v)
	}
	return v, nil
}

// holds evaluates a task's condition.
func (s *session) holds(ctx context.Context, w *work) (bool, error) {
	program, err := expr.Compile(w.task.Condition)
	if err != nil {
		return false, fmt.Errorf("condition of %s: %w", w.task.Name, err)
	}
	scope, err := s.scope(ctx, program.Tasks())
	if err != nil {
		return false, err
	}
	return program.EvalBool(ctx, scope)
}

// scope is what expressions see, with the outputs of the named tasks.
func (s *session) scope(ctx context.Context, tasks []string) (expr.Scope, error) {
	in, err := s.inputs(ctx)
	if err != nil {
		return expr.Scope{}, err
	}
	if s.base.Run == nil {
		if s.base, err = s.fixed(in); err != nil {
			return expr.Scope{}, err
		}
	}
	scope := s.base
	scope.Tasks = make(map[string]expr.TaskView, len(tasks))
	for _, name := range tasks {
		if scope.Tasks[name], err = s.view(ctx, name); err != nil {
			return expr.Scope{}, err
		}
	}
	return scope, nil
}

// fixed is the part of the scope that is the same for all tasks of the run.
// Expressions change none of it.
func (s *session) fixed(in *runstate.Input) (scope expr.Scope, err error) {
	scope.Run = map[string]any{
		"run_id": s.id, "flow_name": s.run.Flow, "flow_version": s.run.Version,
		"environment": s.run.Environment, "logical_date": in.LogicalDate,
	}
	scope.Vars = make(map[string]any, len(in.Vars))
	for k, v := range in.Vars {
		scope.Vars[k] = v
	}
	if params, ok := s.cache.parameters(s.id); ok {
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
	s.cache.keepParameters(s.id, scope.Params, size)
	return scope, nil
}

// view is a task as expressions see it.
func (s *session) view(ctx context.Context, name string) (expr.TaskView, error) {
	v, err := s.outputOf(ctx, name)
	if err != nil {
		return expr.TaskView{}, err
	}
	if v.JSON == nil {
		if v.Size > maxScope {
			return expr.TaskView{}, &expr.EvalError{Msg: fmt.Sprintf("the output of %s has %d bytes, expressions read at most %d", name, v.Size, maxScope)}
		}
		if v.JSON, err = s.object(ctx, v.Ref); err != nil {
			return expr.TaskView{}, err
		}
	}
	out, err := expr.Decode(v.JSON)
	if err != nil {
		return expr.TaskView{}, fmt.Errorf("output of %s: %w", name, err)
	}
	i, _ := s.flow.Index(name)
	status := engine.Succeeded
	item, err := s.status(ctx, engine.Node(i))
	if err != nil {
		return expr.TaskView{}, err
	}
	if item != "" && item != engine.Reused { // what is reused succeeded: a retry decides as its source did
		status = item
	}
	return expr.TaskView{Output: out, Status: string(status)}, nil
}

// status is a finished task's status. A task whose output is in memory
// succeeded, unless it is a map, which hands on its list even if it failed; only
// of others the item is read.
func (s *session) status(ctx context.Context, n engine.Node) (engine.Status, error) {
	if v, ok := s.cache.output(s.id, n); ok && !s.flow.plan.Def(int(n)).Mapped && v.JSON != nil && string(v.JSON) != "null" {
		return engine.Succeeded, nil
	}
	item, err := runstate.LoadNode(ctx, s.Table, s.org, s.id, n)
	if err != nil {
		return "", err
	}
	if item == nil {
		return engine.Pending, nil
	}
	return item.Status, nil
}
