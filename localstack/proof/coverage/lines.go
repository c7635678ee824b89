package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Line is a line on which a statement begins.
type Line struct {
	Name
	File   string // relative to the module
	Number int
	Runs   int // test runs that ran it
}

// Name identifies a line in the list. Equal lines of one function have the same
// name.
type Name struct {
	Package  string // its folder, relative to the module
	Function string // with its receiver's type, e.g. session.walk
	Text     string // without surrounding spaces
}

// String returns the name as in the list.
func (n Name) String() string { return n.Package + " " + n.Function + ": " + n.Text }

// sourceLines returns the lines of the files of a profile, in order.
func sourceLines(root string, blocks map[string][]block) ([]Line, error) {
	var out []Line
	for file, of := range blocks {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
		lines, err := fileLines(file, source, of)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Number, b.Number)) })
	return out, nil
}

// fileLines returns the lines of one file.
func fileLines(file string, source []byte, blocks []block) ([]Line, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	text := strings.Split(string(source), "\n")
	var out []Line
	for _, decl := range parsed.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		seen := map[int]bool{}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause, *ast.LabeledStmt, *ast.EmptyStmt:
				return true
			}
			if _, ok := n.(ast.Stmt); !ok {
				return true
			}
			at := fset.Position(n.Pos())
			b, found := blockAt(blocks, point{at.Line, at.Column})
			if !found || seen[at.Line] {
				return true
			}
			seen[at.Line] = true
			name := Name{path.Dir(file), functionName(function), strings.TrimSpace(text[at.Line-1])}
			out = append(out, Line{name, file, at.Line, b.runs})
			return true
		})
	}
	return out, nil
}

// blockAt returns the innermost block that contains a statement.
func blockAt(blocks []block, at point) (in block, found bool) {
	for _, b := range blocks {
		if !at.before(b.from) && at.before(b.to) && (!found || in.from.before(b.from)) {
			in, found = b, true
		}
	}
	return in, found
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
