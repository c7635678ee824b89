package manual

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// named is a constant of the code with its trailing comment.
type named struct{ name, value, comment string }

// constants returns the documented constants in a file of the repository, of
// the group whose comment begins with group. Errors: there are none.
func constants(root, path, group string) ([]named, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []named
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST || !strings.HasPrefix(decl.Doc.Text(), group) {
			continue
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || spec.Comment == nil {
				continue
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			value := constant.MakeFromLiteral(literal.Value, literal.Kind, 0)
			text := value.ExactString()
			if value.Kind() == constant.String {
				text = constant.StringVal(value)
			}
			out = append(out, named{spec.Names[0].Name, text, strings.TrimSpace(spec.Comment.Text())})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no constants that begin with %q", path, group)
	}
	return out, nil
}

// listed returns a table of constants.
func listed(path, group string, heads ...string) func(root string) (string, error) {
	return func(root string) (string, error) {
		list, err := constants(root, path, group)
		if err != nil {
			return "", err
		}
		g := newGrid(heads...)
		for _, c := range list {
			g.row(code(c.value), c.comment)
		}
		return g.String(), nil
	}
}
