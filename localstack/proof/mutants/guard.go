package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Guard is a place in the source that an invariant depends on. A comment marks
// it: "//guard:" with the name and the operator that breaks it.
type Guard struct {
	Name  string
	Holds string // what it ensures
	Tests Tests  // those that should fail without it
	Mark  Mark
}

// Tests are tests of one package.
type Tests struct {
	Package string // relative to the module's root
	Run     string // names, joined by |
}

// Mark is a guard's position in the source.
type Mark struct {
	File string // relative to the module's root
	Line int    // the line that the operator applies to
	Op   string // the operator with its operands
}

func (m Mark) String() string { return fmt.Sprintf("%s:%d", m.File, m.Line) }

// apply returns the file's source with the guard broken.
func (m Mark) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	broken, err := mutate(source, m.Line, m.Op)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m, m.Op, err)
	}
	return broken, nil
}

// The lists of guards: each line has the name, the package and its tests that
// should fail, and what the guard ensures.
var (
	//go:embed guards.txt
	guardList string
	//go:embed redundant.txt
	redundantList string
)

// folders are searched for guards.
var folders = []string{"shared", "functions", "localstack"}

// guarded reads a list and finds its guards in the source.
func guarded(root, list string) ([]Guard, error) {
	marks, err := marked(root)
	if err != nil {
		return nil, err
	}
	var out []Guard
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 4 {
			return nil, fmt.Errorf("a guard is a name, a package, tests and words: %q", line)
		}
		at := marks[f[0]]
		if len(at) != 1 {
			return nil, fmt.Errorf("guard %s is marked %d times, not once: %v", f[0], len(at), at)
		}
		out = append(out, Guard{Name: f[0], Tests: Tests{f[1], f[2]}, Holds: strings.Join(f[3:], " "), Mark: at[0]})
	}
	return out, nil
}

// marked returns the marks of the module, by the guards' names.
func marked(root string) (map[string][]Mark, error) {
	marks := map[string][]Mark{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return read(filepath.ToSlash(name), source, marks)
		})
		if err != nil {
			return nil, err
		}
	}
	return marks, nil
}

var mark = regexp.MustCompile(`^//guard:(\S+) (.+)$`)

// read adds the marks of a file. A mark on a line of its own applies to the
// next line that is not a comment.
func read(name string, source []byte, marks map[string][]Mark) error {
	if !bytes.Contains(source, []byte("//guard:")) {
		return nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := strings.Split(string(source), "\n")
	alone := func(line int) bool { return strings.HasPrefix(strings.TrimSpace(lines[line-1]), "//") }
	for _, group := range file.Comments {
		for _, c := range group.List {
			m := mark.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			line := fset.Position(c.Pos()).Line
			for alone(line) {
				line++
			}
			marks[m[1]] = append(marks[m[1]], Mark{File: name, Line: line, Op: m[2]})
		}
	}
	return nil
}
