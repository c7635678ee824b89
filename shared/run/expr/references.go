package expr

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// refs are the sorted names to which an expression refers.
type refs struct {
	tasks, secrets []string
	item           bool // item or index
	failed         bool // failed or failed_count
}

// references returns the tasks and secrets of a checked expression. They must
// be named literally, because a task's dependencies must be known before
// anything runs.
func references(tree *ast.AST) (refs, error) {
	w := walker{info: tree.SourceInfo(), tasks: map[string]bool{}, secrets: map[string]bool{}}
	w.walk(tree.Expr())
	if w.err != nil {
		return refs{}, w.err
	}
	return refs{
		tasks:   slices.Sorted(maps.Keys(w.tasks)),
		secrets: slices.Sorted(maps.Keys(w.secrets)),
		item:    w.item,
		failed:  w.failed,
	}, nil
}

type walker struct {
	info           *ast.SourceInfo
	tasks, secrets map[string]bool
	item, failed   bool
	local          []string // variables of the enclosing comprehensions
	err            error
}

func (w *walker) fail(e ast.Expr, format string, args ...any) {
	if w.err != nil {
		return
	}
	at := w.info.GetStartLocation(e.ID())
	w.err = &SyntaxError{Line: at.Line(), Column: at.Column() + 1, Msg: fmt.Sprintf(format, args...)}
}

// walk visits every node. A root (tasks, secrets) is either the head of a
// complete reference, which is recorded, or alone, which is an error.
func (w *walker) walk(e ast.Expr) {
	if w.err != nil || w.taskField(e) || w.secret(e) {
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		switch name := e.AsIdent(); name {
		case varItem, varIndex:
			w.item = w.item || !slices.Contains(w.local, name)
		case varFailed, varCount:
			w.failed = w.failed || !slices.Contains(w.local, name)
		case varTasks:
			w.fail(e, "tasks must be followed by a task's name and .output or .status, e.g. tasks.extract.output; the name cannot be computed")
		case varSecrets:
			w.fail(e, "secrets must be followed by a secret's name, e.g. secrets.token; the name cannot be computed")
		}
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand())
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			w.walk(c.Target())
		}
		w.all(c.Args())
	case ast.ListKind:
		w.all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walk(entry.AsMapEntry().Key())
			w.walk(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			w.walk(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		w.comprehension(e)
	}
}

func (w *walker) all(list []ast.Expr) {
	for _, e := range list {
		w.walk(e)
	}
}

func (w *walker) comprehension(e ast.Expr) {
	c := e.AsComprehension()
	for _, name := range []string{c.IterVar(), c.IterVar2(), c.AccuVar()} {
		switch name {
		case varParams, varRun, varVars, varTasks, varSecrets:
			w.fail(e, "a variable of a comprehension cannot be called %s", name)
			return
		}
	}
	w.walk(c.IterRange())
	w.walk(c.AccuInit())
	outer := w.local
	w.local = append(slices.Clip(outer), c.AccuVar())
	w.walk(c.Result())
	w.local = append(w.local, c.IterVar(), c.IterVar2())
	w.walk(c.LoopCondition())
	w.walk(c.LoopStep())
	w.local = outer
}

// taskField records tasks.<name>.output or .status.
func (w *walker) taskField(e ast.Expr) bool {
	operand, field, ok := member(e)
	if !ok {
		return false
	}
	root, name, ok := member(operand)
	if !ok || !isIdent(root, varTasks) {
		return false
	}
	if field != "output" && field != "status" {
		w.fail(e, "a task has output and status, not %s", field)
		return true
	}
	w.tasks[name] = true
	return true
}

// wholeOutput returns the name of the task if e is tasks.<name>.output,
// otherwise "".
func wholeOutput(e ast.Expr) string {
	operand, field, ok := member(e)
	if !ok || field != "output" {
		return ""
	}
	root, name, ok := member(operand)
	if !ok || !isIdent(root, varTasks) {
		return ""
	}
	return name
}

// secret records secrets.<name>.
func (w *walker) secret(e ast.Expr) bool {
	root, name, ok := member(e)
	if !ok || !isIdent(root, varSecrets) {
		return false
	}
	w.secrets[name] = true
	return true
}

// member splits operand.name and operand["name"].
func member(e ast.Expr) (operand ast.Expr, name string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		return s.Operand(), s.FieldName(), true
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
			return nil, "", false
		}
		key, isText := c.Args()[1].AsLiteral().(types.String)
		return c.Args()[0], string(key), isText
	}
	return nil, "", false
}

func isIdent(e ast.Expr, name string) bool {
	return e.Kind() == ast.IdentKind && e.AsIdent() == name
}
