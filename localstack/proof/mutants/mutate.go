package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// apply breaks the marked line. If there are several candidates on the line, an
// operator applies to the first, and to all of it if it is nested.
//
//	true, false      the condition is always true, or always false
//	and X, or X      the condition also requires X, or X also suffices
//	off +N, off -N   the right side of a comparison is N more, or N less
//
// The condition is that of an if or a case; otherwise the first comparison or
// logical expression; otherwise what is returned or assigned.
//
//	drop             what the line begins with is removed: a statement, a case,
//	                 the arguments or elements
//	insert X         X is inserted before it
//	when X           the statement is executed only if X is true
//	return X         X is returned before the statement
//	hoist X          the element is removed, and X, in which _ stands for it, is
//	                 inserted before the statement
//
//	drop PART        PART is removed
//	PART X           PART is replaced by X
//	call F           F is called instead of the function
//
// PART is "arg N" of a call, "operand N" of && || + or -, or "field F" of a
// literal. N may be a path: "arg 3.1" is the first argument of the third.
//
// What is removed stays in the source as unreachable code, so that the names in
// it are still used.
func (m *mutation) apply(op string) {
	verb, x, _ := strings.Cut(op, " ")
	switch verb {
	case "true":
		m.around(m.condition(), "(true || (", "))")
	case "false":
		m.around(m.condition(), "(false && (", "))")
	case "and":
		m.around(m.condition(), "((", ") && ("+x+"))")
	case "or":
		m.around(m.condition(), "((", ") || ("+x+"))")
	case "off":
		e, _ := first(m, ordered)
		m.around(e.Y, "(", ")"+x)
	case "insert":
		if s, ok := m.here[0].node.(ast.Stmt); ok {
			m.before(s, x)
			return
		}
		p := m.element()
		m.around(p.list[p.at], x+", ", "")
	case "when":
		m.around(m.statement(), "if "+x+" { ", " }")
	case "return":
		m.before(m.statement(), "if true { return "+x+" }")
	case "hoist":
		p := m.element()
		m.before(enclosing(p.in), strings.Replace(x, "_", m.text(p.list[p.at]), 1))
		m.remove(p.list, p.at, p.at+1)
	case "call":
		c, in := first(m, func(*ast.CallExpr) bool { return true })
		m.use(in, c.Fun)
		m.edit(c.Fun.Pos(), c.Fun.End(), x)
	case "drop":
		if x == "" {
			m.drop()
			return
		}
		kind, at, _ := strings.Cut(x, " ")
		m.dropPart(m.part(kind, at))
	case "arg", "operand", "field":
		at, x, _ := strings.Cut(x, " ")
		p := m.part(verb, at)
		m.use(p.in, p.value())
		m.edit(p.value().Pos(), p.value().End(), x)
	default:
		fail("no operator %q", verb)
	}
}

// condition returns the condition of the line.
func (m *mutation) condition() ast.Expr {
	for _, p := range m.here {
		switch n := p.node.(type) {
		case *ast.IfStmt:
			return n.Cond
		case *ast.CaseClause:
			if len(n.List) == 1 {
				return n.List[0]
			}
		}
	}
	for _, p := range m.here {
		switch n := p.node.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR || n.Op == token.EQL || n.Op == token.NEQ || ordered(n) {
				return n
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				return n
			}
		}
	}
	switch n := m.here[0].node.(type) {
	case *ast.ReturnStmt:
		if len(n.Results) == 1 {
			return n.Results[0]
		}
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 {
			return n.Rhs[0]
		}
	}
	fail("no condition")
	return nil
}

func ordered(e *ast.BinaryExpr) bool {
	return e.Op == token.LSS || e.Op == token.LEQ || e.Op == token.GTR || e.Op == token.GEQ
}

func (m *mutation) drop() {
	switch n := m.here[0].node.(type) {
	case *ast.CaseClause:
		m.edit(n.Pos(), n.End(), "")
		return
	case ast.Stmt:
		m.around(n, "if false { ", " }")
		return
	}
	p := m.element()
	end := p.at
	for ; end < len(p.list) && m.line(p.list[end]) == m.line(p.list[p.at]); end++ {
		m.use(p.in, p.list[end])
	}
	m.remove(p.list, p.at, end)
}

func (m *mutation) dropPart(p part) {
	switch p.op {
	case token.LAND:
		m.around(p.list[p.at], "(true || (", "))")
	case token.LOR:
		m.around(p.list[p.at], "(false && (", "))")
	default:
		m.use(p.in, p.list[p.at])
		m.remove(p.list, p.at, p.at+1)
	}
}
