package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/shared/platform/errs"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
)

// Transform evaluates config.expression; its value is the output.
type Transform struct{}

// Instant reports true.
func (Transform) Instant() bool { return true }

// Execute evaluates the expression.
func (t Transform) Execute(ctx context.Context, a *Attempt) Result {
	return Masked(ctx, nil, a, t.execute)
}

func (Transform) execute(ctx context.Context, a *Attempt) Result {
	var config struct{ Expression string }
	if err := json.Unmarshal(a.Task.Config, &config); err != nil {
		return Final(Expression, "config: %v", err)
	}
	program, err := expr.Compile(config.Expression)
	if err != nil {
		return Final(Expression, "config.expression: %v", err)
	}
	scope, err := a.Scope(ctx, program.Tasks())
	if err != nil {
		return trouble(err, "config.expression")
	}
	if err := a.item(&scope); err != nil {
		return trouble(err, "config.expression")
	}
	v, err := program.Eval(ctx, scope)
	if err != nil {
		return trouble(err, "config.expression")
	}
	out, err := expr.Encode(v)
	if err != nil {
		return Final(Serialization, "%v", err)
	}
	return Result{Output: Value{JSON: out, Size: int64(len(out))}}
}

// Wait suspends the attempt for config.seconds. No worker is occupied
// meanwhile.
type Wait struct {
	Now func() time.Time
}

// Instant reports true.
func (Wait) Instant() bool { return true }

// Execute suspends a new attempt and ends a resumed one.
func (w Wait) Execute(ctx context.Context, a *Attempt) Result {
	return Masked(ctx, nil, a, w.execute)
}

func (w Wait) execute(ctx context.Context, a *Attempt) Result {
	config, fail := a.config(ctx)
	if fail != nil {
		return *fail
	}
	seconds, ok := number(config["seconds"])
	if !ok || seconds < 0 || seconds > flowspec.MaxFlowTimeout {
		return Final(Expression, "config.seconds must be a number from 0 to %d", flowspec.MaxFlowTimeout)
	}
	if until := a.Started.Add(time.Duration(seconds * float64(time.Second))); until.After(w.Now()) {
		return Result{Until: until}
	}
	out, _ := expr.Encode(map[string]any{"waited_seconds": config["seconds"]})
	return Result{Output: Value{JSON: out, Size: int64(len(out))}}
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, !math.IsNaN(n)
	}
	return 0, false
}

// config returns the task's rendered config. Its templates may use what
// expressions may use, and secrets.
func (a *Attempt) config(ctx context.Context) (map[string]any, *Result) {
	template, err := a.Task.Template()
	if err != nil {
		r := Final(Expression, "%v", err)
		return nil, &r
	}
	scope, err := a.Scope(ctx, template.Tasks())
	if err != nil {
		r := trouble(err, "config")
		return nil, &r
	}
	if err := a.item(&scope); err != nil {
		r := trouble(err, "config")
		return nil, &r
	}
	v, err := template.Render(ctx, scope, a.Secret)
	if err != nil {
		r := trouble(err, "config")
		return nil, &r
	}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		r := Final(Expression, "config is not an object")
		return nil, &r
	}
	return m, nil
}

// item adds the element of a map's instance to the scope of its expressions.
func (a *Attempt) item(scope *expr.Scope) error {
	if a.MapIndex == nil {
		return nil
	}
	v, err := expr.Decode(a.Item)
	if err != nil {
		return fmt.Errorf("element %d: %w", *a.MapIndex, err)
	}
	scope.Item = &expr.Item{Value: v, Index: *a.MapIndex}
	return nil
}

// trouble returns the result of an error: of an expression that cannot be
// evaluated and of a missing secret, which no retry mends, or of a store that
// cannot be read.
func trouble(err error, where string) Result {
	if bad, ok := errors.AsType[*expr.EvalError](err); ok {
		return Final(Expression, "%s: %s", where, bad.Msg)
	}
	if absent, ok := errors.AsType[*errs.Error](err); ok && absent.Code == errs.NotFound {
		return Final(Expression, "%s: %s", where, absent.Message)
	}
	if permanent(err) {
		return Final(Expression, "%s: %v", where, err)
	}
	r := Failed(Expression, "%s: %v", where, err)
	r.Unstarted = r.Failure.Message
	return r
}
