package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"millrace/shared/platform/budget"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	kind    types.Kind
	tasks   []string
	secrets []string
	item    bool
	output  string
	failed  bool
}

// Source returns the source of the program.
func (p *Program) Source() string { return p.source }

// Tasks returns the names of the tasks the expression refers to, sorted.
func (p *Program) Tasks() []string { return slices.Clone(p.tasks) }

// Secrets returns the names of the secrets it refers to, sorted.
func (p *Program) Secrets() []string { return slices.Clone(p.secrets) }

// UsesItem reports whether it reads item or index, which only instances of a
// mapped task have.
func (p *Program) UsesItem() bool { return p.item }

// Output returns the name of the task if the expression is the output of a
// task, such as tasks.extract.output. ok is false for all other expressions.
func (p *Program) Output() (task string, ok bool) { return p.output, p.output != "" }

// UsesFailed reports whether the expression reads failed or failed_count, which
// only the on_failure task has.
func (p *Program) UsesFailed() bool { return p.failed }

// MayBeBool reports whether the expression's type allows true or false.
func (p *Program) MayBeBool() bool { return p.kind == types.DynKind || p.kind == types.BoolKind }

// MayBeList reports whether the expression's type allows a list.
func (p *Program) MayBeList() bool { return p.kind == types.DynKind || p.kind == types.ListKind }

// Eval returns the value as plain JSON: nil, bool, int64, float64, string,
// []any, map[string]any, and json.Number for integers beyond int64. The result
// may share parts of the scope, so callers must not modify it. The error is an
// [*EvalError], which names the expression, or the context's.
func (p *Program) Eval(ctx context.Context, s Scope) (any, error) {
	b, end := budget.New(ctx, evaluation)
	defer end()
	return p.eval(ctx, b, s, nil)
}

func (p *Program) eval(ctx context.Context, b *budget.Budget, s Scope, secrets map[string]any) (any, error) {
	v, err := p.value(ctx, b, s, secrets)
	if bad, ok := errors.AsType[*EvalError](err); ok {
		err = p.errorf("%s", bad.Msg)
	}
	return v, err
}

// errorf makes an [*EvalError] that names the expression, in the words of local
// runs (millrace/_cel.py).
func (p *Program) errorf(format string, args ...any) error {
	return evalErrorf("%s in `%s`", fmt.Sprintf(format, args...), shown(p.source))
}

func (p *Program) value(ctx context.Context, b *budget.Budget, s Scope, secrets map[string]any) (any, error) {
	v, _, err := p.program.ContextEval(ctx, &activation{
		scope: s, tasks: p.tasks, secrets: secrets, budget: b,
	})
	if stopped := b.Err(); stopped != nil {
		return nil, budgetError(stopped)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, runError(ctx, err)
	}
	if weigh(v, maxSteps) > maxSteps {
		return nil, evalErrorf("the result is too large")
	}
	return native(v, 0)
}

// EvalBool is Eval for a condition. Any value but a boolean is an error.
func (p *Program) EvalBool(ctx context.Context, s Scope) (bool, error) {
	v, err := p.Eval(ctx, s)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, p.errorf("expected true or false, the expression gave %s", kindOf(v))
	}
	return b, nil
}

// EvalList is Eval for a list. Any other value is an error.
func (p *Program) EvalList(ctx context.Context, s Scope) ([]any, error) {
	v, err := p.Eval(ctx, s)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, p.errorf("expected a list, the expression gave %s", kindOf(v))
	}
	return list, nil
}

// activation is the scope of one evaluation, and its budget.
type activation struct {
	scope   Scope
	tasks   []string
	secrets map[string]any
	view    ref.Val // tasks, created on first use
	budget  *budget.Budget
}

// budgetVar is a name that expressions cannot contain.
const budgetVar = "@budget"

func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case varParams:
		return a.scope.Params, true
	case varRun:
		return a.scope.Run, true
	case varVars:
		return a.scope.Vars, true
	case varSecrets:
		return a.secrets, true
	case varTasks:
		if a.view == nil {
			view := make(map[string]any, len(a.tasks))
			for _, name := range a.tasks {
				if t, ok := a.scope.Tasks[name]; ok {
					view[name] = map[string]any{"output": t.Output, "status": t.Status}
				}
			}
			a.view = adapter{}.NativeToValue(view)
		}
		return a.view, true
	case varItem:
		if a.scope.Item != nil {
			return a.scope.Item.Value, true
		}
	case varIndex:
		if a.scope.Item != nil {
			return a.scope.Item.Index, true
		}
	case varFailed:
		if a.scope.Failed != nil {
			return a.scope.Failed.List, true
		}
	case varCount:
		if a.scope.Failed != nil {
			return a.scope.Failed.Count, true
		}
	case budgetVar:
		return a, true
	}
	return nil, false
}
