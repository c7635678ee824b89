package expr

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"millrace/shared/platform/regex"
)

// measure inspects a parsed expression before the library checks it, because
// the check's time is cubic in the nesting of lists, objects and
// comprehensions. It also reports errors that would make the library panic.
func measure(tree *ast.AST) *shape {
	s := &shape{}
	s.height(tree.Expr())
	if s.macros > maxMacros {
		s.fail("an expression may have at most %d of map, filter, all, exists and the like, this one has %d", maxMacros, s.macros)
	}
	if s.cost > maxChecking {
		s.fail("the expression is nested too deep: lists, objects, map, filter and the like within each other")
	}
	return s
}

// Cost of a nesting level in a list or an object, and in a comprehension.
const (
	literalCost       = 1
	comprehensionCost = 4
)

// height returns the nesting depth of the types below e.
func (s *shape) height(e ast.Expr) int {
	switch e.Kind() {
	case ast.SelectKind:
		return s.height(e.AsSelect().Operand())
	case ast.CallKind:
		c := e.AsCall()
		h := s.highest(c.Args())
		if c.IsMemberFunction() {
			h = max(h, s.height(c.Target()))
		}
		if c.FunctionName() == overloads.Matches && len(c.Args()) > 0 {
			s.pattern(c.Args()[len(c.Args())-1])
		}
		return h
	case ast.ListKind:
		return s.literal(s.highest(e.AsList().Elements()))
	case ast.MapKind:
		h := 0
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			if m.Key().Kind() == ast.LiteralKind {
				if _, bytes := m.Key().AsLiteral().(types.Bytes); bytes {
					s.fail("an object's key must be a string, a number or a boolean, not bytes")
				}
			}
			h = max(h, s.height(m.Key()), s.height(m.Value()))
		}
		return s.literal(h)
	case ast.StructKind:
		h := 0
		for _, f := range e.AsStruct().Fields() {
			h = max(h, s.height(f.AsStructField().Value()))
		}
		return h
	case ast.ComprehensionKind:
		s.macros++
		c := e.AsComprehension()
		h := 1 + s.highest([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})
		s.cost += comprehensionCost * h * h
		return h
	}
	return 0
}

func (s *shape) highest(list []ast.Expr) int {
	h := 0
	for _, e := range list {
		h = max(h, s.height(e))
	}
	return h
}

// literal returns the height of a list or an object with elements of the given
// height.
func (s *shape) literal(below int) int {
	h := below + 1
	s.cost += literalCost * h * h
	return h
}

// pattern checks a regular expression given as a literal.
func (s *shape) pattern(e ast.Expr) {
	if e.Kind() != ast.LiteralKind {
		return
	}
	text, ok := e.AsLiteral().(types.String)
	if !ok {
		return
	}
	s.cost += regex.CompileCost(len(text))
	if _, err := regex.Compile(string(text)); err != nil {
		s.fail("invalid matches argument: %s", err)
	}
}
