package expr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/budget"
)

// Template is a JSON value with ${{ … }} inside strings. It is immutable and
// safe for concurrent use.
type Template struct {
	root    node
	refs    []Ref
	secrets []string
}

// Ref is a reference to a task, to the item of a mapped task, or to the failures of
// the run, with its place in a template.
type Ref struct {
	Path   []any  // object keys and array indexes, empty for the whole value
	Task   string // empty for item and index, and if Failed
	Failed bool   // failed or failed_count
}

// TemplateError is one error in a template.
type TemplateError struct {
	Path []any // object keys and array indexes, empty for the whole value
	Err  error
}

// Error returns the sentence without the path.
func (e *TemplateError) Error() string { return e.Err.Error() }

// Unwrap returns the expression's own error.
func (e *TemplateError) Unwrap() error { return e.Err }

// CompileTemplate compiles a JSON value with expressions. Keys are literal. In
// a string, `$${{` stands for `${{`. The error joins a [*TemplateError] for
// each fault; [TemplateErrors] splits it.
func CompileTemplate(raw json.RawMessage) (*Template, error) {
	v, err := Decode(raw)
	if err != nil {
		return nil, errors.Join(&TemplateError{Err: err})
	}
	return NewTemplate(budget.Unlimited(), v)
}

// NewTemplate is [CompileTemplate] for a decoded value. It charges work like
// [CompileIn].
func NewTemplate(work *budget.Budget, v any) (*Template, error) {
	b := builder{work: work}
	root := b.build(v, nil)
	if len(b.faults) > 0 {
		return nil, errors.Join(b.faults...)
	}
	slices.Sort(b.secrets)
	return &Template{root: root, refs: b.refs, secrets: slices.Compact(b.secrets)}, nil
}

// ExpressionTemplate returns the template of a single expression, without ${{
// }} around it. Like [CompileIn] it charges work, and returns its errors.
func ExpressionTemplate(work *budget.Budget, src string) (*Template, error) {
	p, err := CompileIn(work, src)
	if err != nil {
		return nil, err
	}
	t := &Template{root: exprNode{p}}
	for _, name := range p.tasks {
		t.refs = append(t.refs, Ref{Task: name})
	}
	if p.item {
		t.refs = append(t.refs, Ref{})
	}
	return t, nil
}

// TemplateErrors returns the errors joined in an error of [CompileTemplate].
func TemplateErrors(err error) []*TemplateError {
	var out []*TemplateError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, TemplateErrors(e)...)
		}
		return out
	}
	if e, ok := errors.AsType[*TemplateError](err); ok {
		out = append(out, e)
	}
	return out
}

// Refs returns each reference with its place, in document order.
func (t *Template) Refs() []Ref { return slices.Clone(t.refs) }

// Tasks returns the names of the tasks the template refers to, sorted.
func (t *Template) Tasks() []string {
	var names []string
	for _, r := range t.refs {
		if r.Task != "" {
			names = append(names, r.Task)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Secrets returns the names of the secrets it refers to, sorted.
func (t *Template) Secrets() []string { return slices.Clone(t.secrets) }

// Output returns the name of the task whose output is the template's whole
// value. ok is false for all other templates.
func (t *Template) Output() (task string, ok bool) {
	e, single := t.root.(exprNode)
	if !single {
		return "", false
	}
	return e.program.Output()
}

// Constant reports whether the template has no expression.
func (t *Template) Constant() bool { return t.root.expressions() == 0 }

// Render returns the value as plain JSON, see [Program.Eval]. secret is called
// at most once for each secret; it may be nil if [Template.Secrets] is empty.
func (t *Template) Render(ctx context.Context, s Scope, secret func(name string) (string, error)) (any, error) {
	values := make(map[string]any, len(t.secrets))
	for _, name := range t.secrets {
		if secret == nil {
			return nil, evalErrorf("secrets are not available here")
		}
		v, err := secret(name)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		values[name] = v
	}
	b, end := budget.New(ctx, evaluation)
	defer end()
	return t.root.render(&rendering{ctx: ctx, scope: s, secrets: values, budget: b})
}

type builder struct {
	work    *budget.Budget
	faults  []error
	refs    []Ref
	secrets []string
}

func (b *builder) build(v any, path []any) node {
	switch v := v.(type) {
	case string:
		return b.text(v, path)
	case []any:
		list := make(listNode, len(v))
		for i, e := range v {
			list[i] = b.build(e, append(path, i))
		}
		return folded(list)
	case map[string]any:
		object := make(objectNode, 0, len(v))
		for _, k := range sortedKeys(v) {
			object = append(object, field{k, b.build(v[k], append(path, k))})
		}
		return folded(object)
	}
	return literal{v}
}

func (b *builder) text(s string, path []any) node {
	if !strings.Contains(s, "${{") {
		return literal{s}
	}
	segments, err := split(s)
	if err != nil {
		b.fault(path, err)
		return literal{}
	}
	var parts textNode
	for _, seg := range segments {
		if !seg.expression {
			parts = append(parts, literal{seg.text})
			continue
		}
		p, err := compile(b.work, seg.text)
		if err != nil {
			b.fault(path, err)
			continue
		}
		for _, name := range p.tasks {
			b.refs = append(b.refs, Ref{Path: slices.Clone(path), Task: name})
		}
		if p.item {
			b.refs = append(b.refs, Ref{Path: slices.Clone(path)})
		}
		if p.failed {
			b.refs = append(b.refs, Ref{Path: slices.Clone(path), Failed: true})
		}
		b.secrets = append(b.secrets, p.secrets...)
		parts = append(parts, exprNode{p})
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts
}

func (b *builder) fault(path []any, err error) {
	b.faults = append(b.faults, &TemplateError{Path: slices.Clone(path), Err: err})
}
