package expr

import (
	"context"
	"maps"
	"slices"
	"strings"

	"millrace/shared/platform/budget"
)

// rendering is one evaluation of a template.
type rendering struct {
	ctx     context.Context
	scope   Scope
	secrets map[string]any
	budget  *budget.Budget
	written int // bytes of text interpolated so far
}

// node is a part of a template.
type node interface {
	render(r *rendering) (any, error)
	expressions() int // number of expressions below
}

// literal is a value without expressions, which is returned unchanged.
type literal struct{ value any }

func (l literal) render(*rendering) (any, error) { return l.value, nil }
func (literal) expressions() int                 { return 0 }

// exprNode is a string that consists of one ${{ … }}. It keeps the value's
// type.
type exprNode struct{ program *Program }

func (e exprNode) render(r *rendering) (any, error) {
	return e.program.eval(r.ctx, r.budget, r.scope, r.secrets)
}
func (exprNode) expressions() int { return 1 }

// textNode is a string with embedded expressions: strings are inserted
// verbatim, other values as JSON.
type textNode []node

func (t textNode) render(r *rendering) (any, error) {
	var out strings.Builder
	for _, part := range t {
		v, err := part.render(r)
		if err != nil {
			return nil, err
		}
		s, ok := v.(string)
		if !ok {
			raw, err := Encode(v)
			if err != nil {
				return nil, err
			}
			s = string(raw)
		}
		if r.written += len(s); r.written > maxString {
			return nil, evalErrorf("the text is too large; at most %d bytes are allowed", maxString)
		}
		if err := r.budget.Take(len(s)); err != nil {
			return nil, budgetError(err)
		}
		out.WriteString(s)
	}
	return out.String(), nil
}

// A text of more than one part has at least one expression, possibly an invalid
// one.
func (t textNode) expressions() int { return max(1, count(t)) }

type listNode []node

func (l listNode) render(r *rendering) (any, error) {
	out := make([]any, len(l))
	for i, n := range l {
		v, err := n.render(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (l listNode) expressions() int { return count(l) }

type field struct {
	key   string
	value node
}

type objectNode []field

func (o objectNode) render(r *rendering) (any, error) {
	out := make(map[string]any, len(o))
	for _, f := range o {
		v, err := f.value.render(r)
		if err != nil {
			return nil, err
		}
		out[f.key] = v
	}
	return out, nil
}

func (o objectNode) expressions() int {
	n := 0
	for _, f := range o {
		n += f.value.expressions()
	}
	return n
}

// folded replaces a node without expressions by its value.
func folded(n node) node {
	if n.expressions() > 0 {
		return n
	}
	v, err := n.render(nil)
	if err != nil {
		return n
	}
	return literal{v}
}

func count(nodes []node) int {
	n := 0
	for _, e := range nodes {
		n += e.expressions()
	}
	return n
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
