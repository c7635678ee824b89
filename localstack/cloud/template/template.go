// Package template reads the CloudFormation templates that the CDK synthesizes
// and works out, without CloudFormation, what their resources are to be: it
// resolves the intrinsic functions, the references between stacks included, and
// visits the resources in the order of their dependencies. Of the intrinsic
// functions it has those that a synthesized app uses; another is an error.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// suffix ends the names of the files that hold templates.
const suffix = ".template.json"

// Assembly is the stacks of one app.
type Assembly struct {
	Stacks []*Stack // by name
}

// Stack is one template.
type Stack struct {
	Name string // as it is deployed

	Parameters map[string]Parameter
	Mappings   map[string]any
	Conditions map[string]any
	Resources  map[string]*Resource
	Outputs    map[string]Output
}

// Parameter is what the template asks of whoever deploys it.
type Parameter struct {
	Type    string
	Default any // nil: a value must be given
}

// Output is a value of a stack, which others import if it has an export's name.
type Output struct {
	Value  any
	Export struct{ Name any }
}

// Resource is one resource as the template writes it.
type Resource struct {
	Type       string
	Properties map[string]any // unresolved
	DependsOn  any            // a name or a list of them
	Condition  string

	Stack *Stack `json:"-"`
	ID    string `json:"-"` // logical
}

// String names the resource for messages: "Data/Table (AWS::DynamoDB::Table)".
func (r *Resource) String() string {
	return fmt.Sprintf("%s/%s (%s)", r.Stack.Name, r.ID, r.Type)
}

// Load reads a folder of templates, cdk.out or a part of it. The manifest, if
// there is one, says which files are stacks and what they are called; else every
// file *.template.json is a stack of that name. Errors: those of reading; no
// template; a file that is none.
func Load(dir fs.FS) (*Assembly, error) {
	files, err := stackFiles(dir)
	if err != nil {
		return nil, err
	}
	a := &Assembly{}
	for _, file := range files {
		s, err := loadStack(dir, file)
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", file.path, err)
		}
		a.Stacks = append(a.Stacks, s)
	}
	slices.SortFunc(a.Stacks, func(a, b *Stack) int { return strings.Compare(a.Name, b.Name) })
	return a, nil
}

type stackFile struct{ path, stack string }

// stackFiles finds the templates and the names of their stacks.
func stackFiles(dir fs.FS) ([]stackFile, error) {
	data, err := fs.ReadFile(dir, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		names, err := fs.Glob(dir, "*"+suffix)
		if err == nil && len(names) == 0 {
			err = fmt.Errorf("no file *%s", suffix)
		}
		var out []stackFile
		for _, name := range names {
			out = append(out, stackFile{name, strings.TrimSuffix(path.Base(name), suffix)})
		}
		return out, err
	}
	if err != nil {
		return nil, err
	}
	var manifest struct {
		Artifacts map[string]struct {
			Type       string
			Properties struct{ TemplateFile, StackName string }
		}
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var out []stackFile
	for id, artifact := range manifest.Artifacts {
		if artifact.Type != "aws:cloudformation:stack" {
			continue
		}
		name := artifact.Properties.StackName
		if name == "" {
			name = id
		}
		out = append(out, stackFile{artifact.Properties.TemplateFile, name})
	}
	if len(out) == 0 {
		return nil, errors.New("manifest.json names no stack")
	}
	return out, nil
}

func loadStack(dir fs.FS, file stackFile) (*Stack, error) {
	data, err := fs.ReadFile(dir, file.path)
	if err != nil {
		return nil, err
	}
	s := &Stack{Name: file.stack}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // numbers keep their digits
	if err := dec.Decode(s); err != nil {
		return nil, err
	}
	s.Name = file.stack // whatever the file says
	if len(s.Resources) == 0 {
		return nil, errors.New("it has no resources")
	}
	for id, r := range s.Resources {
		if r == nil || r.Type == "" {
			return nil, fmt.Errorf("resource %s has no type", id)
		}
		r.Stack, r.ID = s, id
	}
	return s, nil
}

// dependsOn lists the names of DependsOn.
func (r *Resource) dependsOn() ([]string, error) {
	switch v := r.DependsOn.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		var out []string
		for _, e := range v {
			name, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%s: DependsOn names %v", r, e)
			}
			out = append(out, name)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s: DependsOn is %v", r, r.DependsOn)
}
