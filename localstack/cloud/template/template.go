// Package template interprets the CloudFormation templates that the CDK app in
// infra synthesizes, without CloudFormation: it evaluates Ref, Fn::GetAtt of
// Arn, Version and FunctionUrl, Fn::Sub and Fn::ImportValue and visits the resources in the order of
// their dependencies. The app uses nothing else, so anything else is an error:
// parameters, conditions, mappings, other functions, dynamic references.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// suffix is the suffix of template file names, and elsewhere that of the stack of
// another region, which one machine does not have.
const (
	suffix    = ".template.json"
	elsewhere = "-recovery" + suffix
)

// Assembly is the stacks of an app.
type Assembly struct {
	stacks []*stack // ordered by name
}

// stack is one template, with all supported sections.
type stack struct {
	Description string
	Resources   map[string]*Resource
	Outputs     map[string]struct {
		Description string
		Value       any
		Export      struct{ Name string }
	}
}

// Resource is a resource in a template.
type Resource struct {
	Type       string
	Properties map[string]any
	DependsOn  []string
	// Policies of AWS without effect on one machine.
	DeletionPolicy, UpdateReplacePolicy string
	UpdatePolicy                        any

	stack *stack
	name  string
}

// String returns the name for messages: "data/Table (AWS::DynamoDB::Table)".
func (r *Resource) String() string { return r.name + " (" + r.Type + ")" }

// Name returns the resource's name within its stack, with the stack's:
// "data-Table".
func (r *Resource) Name() string { return strings.ReplaceAll(r.name, "/", "-") }

// Load reads a folder of templates, such as cdk.out: every file *.template.json
// is a stack, of which that of another region is left out. It fails if a file cannot be read or is not a template, and if
// there is none.
func Load(dir fs.FS) (*Assembly, error) {
	files, err := fs.Glob(dir, "*"+suffix)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, elsewhere) })
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
	dec.UseNumber() // to keep numbers exact
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
