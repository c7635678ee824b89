package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutation changes a marked line and keeps every other byte of the source.
type mutation struct {
	fset   *token.FileSet
	source []byte
	here   []place // nodes that begin on the line, in order, outermost first
	edits  []edit
}

// place is a node with its ancestors, outermost first.
type place struct {
	node ast.Node
	in   []ast.Node
}

type edit struct {
	from, to int
	text     string
}

// misfit is the error of an operator that does not fit its line.
type misfit struct{ error }

func fail(format string, args ...any) { panic(misfit{fmt.Errorf(format, args...)}) }

// mutate applies an operator to a line of Go.
func mutate(source []byte, line int, op string) (out []byte, err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case misfit:
			err = x.error
		default:
			panic(x)
		}
	}()
	m := &mutation{fset: token.NewFileSet(), source: source}
	m.walk(line)
	m.apply(op)
	slices.SortStableFunc(m.edits, func(a, b edit) int { return a.from - b.from })
	done := 0
	for _, e := range m.edits {
		out = append(append(out, source[done:e.from]...), e.text...)
		done = e.to
	}
	out = append(out, source[done:]...)
	_, err = parser.ParseFile(token.NewFileSet(), "", out, parser.SkipObjectResolution)
	return out, err
}

// walk collects the nodes that begin on a line.
func (m *mutation) walk(line int) {
	file, err := parser.ParseFile(m.fset, "", m.source, parser.SkipObjectResolution)
	if err != nil {
		fail("%w", err)
	}
	ast.PreorderStack(file, nil, func(n ast.Node, in []ast.Node) bool {
		if m.line(n) == line {
			m.here = append(m.here, place{n, slices.Clone(in)})
		}
		return true
	})
	if len(m.here) == 0 {
		fail("nothing begins on line %d", line)
	}
}

func (m *mutation) line(n ast.Node) int    { return m.fset.Position(n.Pos()).Line }
func (m *mutation) offset(p token.Pos) int { return m.fset.Position(p).Offset }
func (m *mutation) text(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

func (m *mutation) edit(from, to token.Pos, text string) {
	m.edits = append(m.edits, edit{m.offset(from), m.offset(to), text})
}

func (m *mutation) around(n ast.Node, before, after string) {
	m.edit(n.Pos(), n.Pos(), before)
	m.edit(n.End(), n.End(), after)
}

func (m *mutation) before(s ast.Stmt, text string) {
	if s == nil {
		fail("not in a statement")
	}
	m.edit(s.Pos(), s.Pos(), text+"; ")
}

// use keeps the names in a removed expression used.
func (m *mutation) use(in []ast.Node, e ast.Expr) {
	if field, ok := e.(*ast.KeyValueExpr); ok {
		e = field.Value
	}
	if _, literal := e.(*ast.BasicLit); literal {
		return
	}
	if s := enclosing(in); s != nil {
		m.before(s, "_ = func() { _ = "+m.text(e)+" }")
	}
}

// remove removes elements of a list, with adjacent commas or operators.
func (m *mutation) remove(list []ast.Expr, from, to int) {
	switch {
	case to < len(list):
		m.edit(list[from].Pos(), list[to].Pos(), "")
	case from > 0:
		m.edit(list[from-1].End(), list[to-1].End(), "")
	default: // all of them; a comma may follow
		end := m.offset(list[to-1].End())
		if rest := bytes.TrimLeft(m.source[end:], " \t\n"); bytes.HasPrefix(rest, []byte(",")) {
			end = len(m.source) - len(rest) + 1
		}
		m.edits = append(m.edits, edit{m.offset(list[from].Pos()), end, ""})
	}
}

// first returns the first node of a kind that begins on the line.
func first[N ast.Node](m *mutation, ok func(N) bool) (none N, in []ast.Node) {
	for _, p := range m.here {
		if n, is := p.node.(N); is && ok(n) {
			return n, p.in
		}
	}
	fail("nothing on the line fits")
	return none, nil
}

// statement returns the statement with which the line begins.
func (m *mutation) statement() ast.Stmt {
	s, ok := m.here[0].node.(ast.Stmt)
	if !ok {
		fail("no statement begins the line")
	}
	return s
}

// enclosing returns the innermost statement before which another can be
// inserted.
func enclosing(in []ast.Node) ast.Stmt {
	for i := len(in) - 1; i > 0; i-- {
		if _, clause := in[i].(*ast.CaseClause); clause {
			continue
		}
		switch in[i-1].(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			if s, ok := in[i].(ast.Stmt); ok {
				return s
			}
		}
	}
	return nil
}

// part is a part of a call, an expression or a literal.
type part struct {
	list []ast.Expr
	at   int
	op   token.Token // between operands
	in   []ast.Node
}

// value returns the part; for a field, its value.
func (p part) value() ast.Expr {
	if field, ok := p.list[p.at].(*ast.KeyValueExpr); ok {
		return field.Value
	}
	return p.list[p.at]
}

// element returns the element with which the line begins, and its siblings.
func (m *mutation) element() part { return elementOf(m.here[0].node, m.here[0].in) }

func elementOf(n ast.Node, in []ast.Node) part {
	p := part{in: in}
	switch parent := in[len(in)-1].(type) {
	case *ast.CallExpr:
		p.list = parent.Args
	case *ast.CompositeLit:
		p.list = parent.Elts
	case *ast.CaseClause:
		p.list = parent.List
	}
	if p.at = slices.IndexFunc(p.list, func(e ast.Expr) bool { return e == n }); p.at < 0 {
		fail("no element of a list")
	}
	return p
}

// part returns a part of the first call, expression or literal on the line.
func (m *mutation) part(kind, path string) (p part) {
	if kind == "field" {
		return elementOf(first(m, func(f *ast.KeyValueExpr) bool { return m.text(f.Key) == path }))
	}
	e, in := first(m, func(e ast.Expr) bool { list, _ := parts(kind, e); return list != nil })
	p.in = in
	for step := range strings.SplitSeq(path, ".") {
		n, err := strconv.Atoi(step)
		p.list, p.op = parts(kind, e)
		if err != nil || n < 1 || n > len(p.list) {
			fail("no %s %s", kind, path)
		}
		p.at = n - 1
		e = p.list[p.at]
	}
	return p
}

// parts returns the arguments of a call, or the operands of an expression.
func parts(kind string, e ast.Expr) (list []ast.Expr, op token.Token) {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		if kind == "arg" {
			return e.Args, 0
		}
	case *ast.BinaryExpr:
		if kind != "operand" || !slices.Contains([]token.Token{token.LAND, token.LOR, token.ADD, token.SUB}, e.Op) {
			return nil, 0
		}
		list = []ast.Expr{e.X}
		if left, ok := e.X.(*ast.BinaryExpr); ok && left.Op == e.Op {
			list, _ = parts(kind, left)
		}
		return append(list, e.Y), e.Op
	}
	return nil, 0
}
