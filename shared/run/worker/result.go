package worker

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/runstate"
)

// keepResult stores the value of the flow's result before the run changes to
// SUCCEEDED. A result that has no value, or cannot be stored, does not fail the
// run: the error is stored instead. It may be repeated; the first result is
// kept.
func (l *lifecycle) keepResult(ctx context.Context) error {
	template, err := l.flow.ResultTemplate()
	if template == nil && err == nil {
		return nil
	}
	item := runstate.Result{Key: runstate.ResultKey(l.org, l.id), Expires: runstate.Expiry(l.Quota, l.org, l.Clock.Now())}
	v := values{l.session}
	defer v.releaseScope()
	var out executor.Value
	if err != nil { // registered by another version of the service
		err = &expr.EvalError{Msg: err.Error()}
	} else {
		out, err = v.result(ctx, template)
	}
	switch why, final := lastingFault(err); {
	case final:
		item.Error = clip(why)
	case err != nil:
		return err
	case out.Ref != "":
		item.OutputRef, item.OutputSize = out.Ref, out.Size
	default:
		item.Output = string(out.JSON)
	}
	if err := l.Table.Put(ctx, table.Put{Item: item, If: table.IsNew()}); err != nil && !errors.Is(err, table.ErrConditionFailed) {
		return fmt.Errorf("store result: %w", err)
	}
	return nil
}

// result evaluates a result. A task's whole output is not read; a large result
// is an object.
func (v values) result(ctx context.Context, template *expr.Template) (executor.Value, error) {
	if task, whole := template.Output(); whole {
		return v.outputOf(ctx, task)
	}
	scope, err := v.scope(ctx, template.Tasks())
	if err != nil {
		return executor.Value{}, err
	}
	value, err := template.Render(ctx, scope, nil)
	if err != nil {
		return executor.Value{}, err
	}
	raw, err := expr.Encode(value)
	if err != nil {
		return executor.Value{}, &expr.EvalError{Msg: err.Error()}
	}
	out := executor.Value{JSON: raw, Size: int64(len(raw))}
	if len(raw) > runstate.MaxInline {
		out.Ref = runstate.Object(v.org, v.id, "result.json")
		_, err = blob.PutBytes(ctx, v.Blob, out.Ref, raw, blob.PutOptions{ContentType: "application/json"})
	}
	return out, err
}

// lastingFault returns the error of a result if evaluating it again would fail
// the same way.
func lastingFault(err error) (why string, ok bool) {
	if bad, ok := errors.AsType[*expr.EvalError](err); ok {
		return bad.Msg, true
	}
	if refused, ok := lasting(err); ok {
		return refused.Failure.Message, true
	}
	return "", false
}
