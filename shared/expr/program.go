package expr

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	lru "github.com/hashicorp/golang-lru/v2"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	source  string
	program cel.Program
	kind    types.Kind
	tasks   []string
	secrets []string
	item    bool
}

// programs keeps what was compiled: the same few expressions run for every task
// of every run, and compiling costs a hundred times an evaluation.
var programs = func() *lru.Cache[string, *Program] {
	c, err := lru.New[string, *Program](1024)
	if err != nil {
		panic(err) // only for a size below one
	}
	return c
}()

// Compile checks an expression. The error is a [*SyntaxError] with one sentence
// for the user; secrets are refused, they belong in templates.
func Compile(src string) (*Program, error) {
	p, err := compile(src)
	if err != nil {
		return nil, err
	}
	if len(p.secrets) > 0 {
		return nil, &SyntaxError{Msg: "secrets may be used only inside a task's config, in ${{ … }}"}
	}
	return p, nil
}

func compile(src string) (*Program, error) {
	if p, ok := programs.Get(src); ok {
		return p, nil
	}
	p, err := compileNew(src)
	if err != nil {
		return nil, err
	}
	programs.Add(src, p)
	return p, nil
}

func compileNew(src string) (*Program, error) {
	switch {
	case len(src) > MaxSource:
		return nil, &SyntaxError{Msg: "an expression may have at most 16384 bytes"}
	case strings.TrimSpace(src) == "":
		return nil, &SyntaxError{Msg: "the expression is empty"}
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(src)
	if issues.Err() != nil {
		return nil, issueError(src, issues)
	}
	if n := macros(parsed.NativeRep()); n > maxMacros {
		return nil, &SyntaxError{Msg: fmt.Sprintf("an expression may have at most %d of map, filter, all, exists and the like, this one has %d", maxMacros, n)}
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, issueError(src, issues)
	}
	refs, err := references(checked.NativeRep())
	if err != nil {
		return nil, err
	}
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(guard),
		cel.InterruptCheckFrequency(100),
	)
	if err != nil {
		return nil, &SyntaxError{Msg: firstSentence(err.Error())}
	}
	return &Program{
		source:  src,
		program: program,
		kind:    checked.OutputType().Kind(),
		tasks:   refs.tasks,
		secrets: refs.secrets,
		item:    refs.item,
	}, nil
}

// Source is the text the program was compiled from.
func (p *Program) Source() string { return p.source }

// Tasks returns the names of the tasks the expression refers to, sorted.
func (p *Program) Tasks() []string { return slices.Clone(p.tasks) }

// Secrets returns the names of the secrets it refers to, sorted.
func (p *Program) Secrets() []string { return slices.Clone(p.secrets) }

// UsesItem tells whether it reads item or index, which only the instances of a
// mapped task have.
func (p *Program) UsesItem() bool { return p.item }

// MayBeBool tells whether the expression's type allows true or false.
func (p *Program) MayBeBool() bool { return p.kind == types.DynKind || p.kind == types.BoolKind }

// MayBeList tells whether the expression's type allows a list.
func (p *Program) MayBeList() bool { return p.kind == types.DynKind || p.kind == types.ListKind }

// Eval computes the value as plain JSON: nil, bool, int64, float64, string,
// []any, map[string]any, and json.Number for integers beyond int64. Parts of the
// scope may be handed back as they are, so the result is not to be changed. The
// error is an [*EvalError] or the context's.
func (p *Program) Eval(ctx context.Context, s Scope) (any, error) {
	return p.eval(ctx, s, nil)
}

func (p *Program) eval(ctx context.Context, s Scope, secrets map[string]any) (any, error) {
	v, _, err := p.program.ContextEval(ctx, &activation{
		scope: s, tasks: p.tasks, secrets: secrets, left: maxWork,
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, runError(err)
	}
	if weigh(v, maxWork) > maxWork {
		return nil, evalErrorf("the result is too large")
	}
	return native(v, 0)
}

// EvalBool is Eval for a condition: anything but true or false is an error.
func (p *Program) EvalBool(ctx context.Context, s Scope) (bool, error) {
	v, err := p.Eval(ctx, s)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, evalErrorf("expected true or false, the expression gave %s", kindOf(v))
	}
	return b, nil
}

// EvalList is Eval for a list: anything else is an error.
func (p *Program) EvalList(ctx context.Context, s Scope) ([]any, error) {
	v, err := p.Eval(ctx, s)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, evalErrorf("expected a list, the expression gave %s", kindOf(v))
	}
	return list, nil
}

// activation is the scope of one evaluation, and its budget of values to build.
type activation struct {
	scope   Scope
	tasks   []string
	secrets map[string]any
	view    ref.Val // tasks, made when first asked for
	left    int
}

// budgetVar is a name no expression can write.
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
	case budgetVar:
		return a, true
	}
	return nil, false
}
