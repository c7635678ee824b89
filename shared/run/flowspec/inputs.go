package flowspec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"millrace/shared/platform/budget"
	"millrace/shared/run/expr"
	"millrace/shared/run/tier"
)

// argumentName matches the names of a Python function's arguments.
var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) // and at most maxArgument

const (
	maxArguments = 200
	maxArgument  = 128 // bytes of an argument's name
)

// Arguments are the compiled inputs of a task.
type Arguments struct {
	// Outputs maps arguments to the tasks whose whole output they are. Such a
	// value can be passed by reference.
	Outputs map[string]string
	// Values is the template of an object of the other arguments.
	Values *expr.Template
}

// HasInputs reports whether the task has inputs. If so, even if they are empty,
// only ctx, item and index are passed by name.
func (t *Task) HasInputs() bool { return given(t.Inputs) }

// Arguments returns the task's inputs, nil if it has none.
func (t *Task) Arguments() (*Arguments, error) {
	if !t.HasInputs() {
		return nil, nil
	}
	return t.lazy.arguments()
}

// given reports whether an optional field is set. null means absent.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func compileArguments(raw json.RawMessage) (*Arguments, error) {
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("inputs: not an object")
	}
	out := &Arguments{Outputs: map[string]string{}}
	rest := make(map[string]any, len(fields))
	for name, value := range fields {
		t, err := expr.NewTemplate(budget.Unlimited(), value)
		if err != nil {
			return nil, fmt.Errorf("inputs.%s: %w", name, err)
		}
		if task, whole := t.Output(); whole {
			out.Outputs[name] = task
			continue
		}
		rest[name] = value
	}
	out.Values, err = expr.NewTemplate(budget.Unlimited(), rest)
	return out, err
}

// inputs checks the arguments of a task's function.
func (p *parser) inputs(o *Object, task int, kind Kind) {
	if !o.Has("inputs") {
		return
	}
	if !kind.NeedsEntrypoint {
		o.Fault(nil, []any{"inputs"}, "a %s task calls no function and has no inputs: write the values into its config", kind.Name)
		return
	}
	in := o.Object("inputs")
	if in == nil {
		return
	}
	in.mapped, in.failed = o.Has("map_over"), o.failed
	if len(in.fields) > maxArguments {
		in.Fault(nil, nil, "a task may have at most %d inputs, this one has %d", maxArguments, len(in.fields))
		return
	}
	for _, name := range in.Keys() {
		switch {
		case len(name) > maxArgument || !argumentName.MatchString(name):
			in.Fault(nil, []any{clip(name)}, "this is not the name of an argument")
		case name == "ctx", in.mapped && (name == "item" || name == "index"):
			in.Fault(nil, []any{name}, "the argument %s is filled in by the service", name)
		}
	}
	p.template(in, task, "the inputs of a task", false, in.fields)
}

// tier checks the runtime tier of a task.
func (p *parser) tier(o *Object) {
	name, ok := o.Text("tier")
	if !ok {
		return
	}
	if !slices.Contains(tier.All(), tier.Tier(name)) {
		o.Fault(name, []any{"tier"}, "tier must be one of %s", tier.Names())
		return
	}
	kind, _ := o.fields["type"].(string)
	if tiers := p.kinds[kind].Tiers; !tiers.Has(tier.Tier(name)) {
		o.Fault(name, []any{"tier"}, "tier %s", tiers.Lacks(tier.Tier(name)))
	}
}

// result checks the flow's result: an expression, or a value with ${{ … }} in its
// strings. It may read every task.
func (p *parser) result(root *Object) {
	if !root.Has("result") {
		return
	}
	v, loc := root.Value("result"), at(root.loc, "result")
	t, err := compileResult(p.budget, v)
	switch {
	case p.budget.Err() != nil:
		return // the error is reported for the whole
	case err != nil:
		faults := expr.TemplateErrors(err)
		for _, fault := range faults {
			p.faults.add("expression_error", at(loc, fault.Path...), nil, "%s", fault.Err)
		}
		if len(faults) == 0 {
			p.faults.add("expression_error", loc, v, "%s", err)
		}
		return
	}
	if names := t.Secrets(); len(names) > 0 {
		p.faults.add("expression_error", loc, nil, "result may not use secrets, this one reads secrets.%s", clip(names[0]))
	}
	for _, r := range t.Refs() {
		if r.Failed {
			p.failed(&Object{}, at(loc, r.Path...))
			continue
		}
		if r.Task == "" {
			p.faults.add("expression_error", at(loc, r.Path...), nil, "item and index exist only in the config and inputs of a task with map_over")
			continue
		}
		p.refs = append(p.refs, ref{task: -1, loc: at(loc, r.Path...), name: r.Task})
	}
}

// ResultTemplate returns the flow's result, nil if it has none.
func (f *Flow) ResultTemplate() (*expr.Template, error) {
	if !given(f.Spec.Result) {
		return nil, nil
	}
	return f.result()
}

func resultTemplate(b *budget.Budget, raw json.RawMessage) (*expr.Template, error) {
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return compileResult(b, v)
}

// compileResult treats a string without ${{ as an expression.
func compileResult(b *budget.Budget, v any) (*expr.Template, error) {
	if src, ok := v.(string); ok && !strings.Contains(src, "${{") {
		return expr.ExpressionTemplate(b, src)
	}
	return expr.NewTemplate(b, v)
}
