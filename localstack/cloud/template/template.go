// Package template interprets the CloudFormation templates that the CDK app in
// infra synthesizes, without CloudFormation: it puts in what Ref, Fn::GetAtt of
// Arn, Fn::Sub and Fn::ImportValue stand for and visits the resources in the
// order of their dependencies. The app uses nothing else, so anything else is an
// error: parameters, conditions, mappings, other functions, dynamic references.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// suffix ends the names of the files that hold templates.
const suffix = ".template.json"

// Assembly is the stacks of one app.
type Assembly struct {
	stacks []*stack // by name
}

// stack is one template: everything that may stand in it.
type stack struct {
	Description string
	Resources   map[string]*Resource
	Outputs     map[string]struct {
		Description string
		Value       any
		Export      struct{ Name string }
	}
}

// Resource is one resource as the template writes it.
type Resource struct {
	Type       string
	Properties map[string]any
	DependsOn  []string
	// What becomes of resources on one machine is not the template's to say.
	DeletionPolicy, UpdateReplacePolicy string

	stack *stack
	name  string
}

// String names the resource for messages: "data/Table (AWS::DynamoDB::Table)".
func (r *Resource) String() string { return r.name + " (" + r.Type + ")" }

// Load reads a folder of templates, such as cdk.out: every file *.template.json
// is a stack. Errors: those of reading; no template; a file that is none.
func Load(dir fs.FS) (*Assembly, error) {
	files, err := fs.Glob(dir, "*"+suffix)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file *%s", suffix)
	}
	a := &Assembly{}
	for _, file := range files {
		s, err := load(dir, file)
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", file, err)
		}
		a.stacks = append(a.stacks, s)
	}
	return a, nil
}

func load(dir fs.FS, file string) (*stack, error) {
	data, err := fs.ReadFile(dir, file)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("{{resolve:")) {
		return nil, errors.New("dynamic references are not known here")
	}
	s := &stack{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // numbers keep their digits
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, err
	}
	if len(s.Resources) == 0 {
		return nil, errors.New("it has no resources")
	}
	for id, r := range s.Resources {
		if r == nil || r.Type == "" {
			return nil, fmt.Errorf("resource %s has no type", id)
		}
		r.stack, r.name = s, strings.TrimSuffix(file, suffix)+"/"+id
	}
	return s, nil
}
