package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Partition and URLSuffix are the values of these pseudo parameters.
const (
	Partition = "aws"
	URLSuffix = "amazonaws.com"
)

// Environment is the environment of a deployment.
type Environment struct {
	Region    string // AWS::Region
	AccountID string // AWS::AccountId
}

// Attributes are the attributes of a created resource that others can refer to.
type Attributes struct {
	Ref, ARN string
	Version  string // of a function
	URL      string // FunctionUrl of a function's URL; "" for other resources
}

// named returns an attribute by its name in templates.
func (a Attributes) named(name string) (value string, known bool) {
	switch {
	case name == "Arn":
		return a.ARN, true
	case name == "Version":
		return a.Version, true
	case name == "FunctionUrl" && a.URL != "":
		return a.URL, true
	}
	return "", false
}

// Maker creates a resource, whose properties are resolved, and returns its
// attributes.
type Maker func(r *Resource, properties map[string]any) (Attributes, error)

// Deploy creates every resource after those that it refers to and depends on,
// always in the same order. Errors: the first of make, an unresolved reference,
// a cycle, an unsupported function.
func (a *Assembly) Deploy(env Environment, make Maker) error {
	d := &deployment{
		stacks: a.stacks, make: make, made: map[*Resource]*Attributes{},
		pseudo: map[string]string{
			"AWS::Region": env.Region, "AWS::AccountId": env.AccountID, "AWS::Partition": Partition, "AWS::URLSuffix": URLSuffix,
		},
	}
	for _, s := range a.stacks {
		for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
			if _, err := d.resource(s, id); err != nil {
				return fmt.Errorf("template: %w", err)
			}
		}
	}
	return nil
}

// deployment is a Deploy in progress.
type deployment struct {
	stacks []*stack
	make   Maker
	pseudo map[string]string
	made   map[*Resource]*Attributes // nil while in progress
}

// resource creates a resource of a stack, unless it exists.
func (d *deployment) resource(s *stack, id string) (_ *Attributes, err error) {
	r, found := s.Resources[id]
	if !found {
		return nil, fmt.Errorf("the stack has no %s", id)
	}
	if out, begun := d.made[r]; begun {
		if out == nil {
			return nil, fmt.Errorf("resources refer to each other: %s", r)
		}
		return out, nil
	}
	d.made[r] = nil
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", r, err)
		}
	}()
	for _, other := range r.DependsOn {
		if _, err := d.resource(s, other); err != nil {
			return nil, err
		}
	}
	properties, err := d.members(s, r.Properties)
	if err != nil {
		return nil, err
	}
	out, err := d.make(r, properties)
	if err != nil {
		return nil, err
	}
	d.made[r] = &out
	return &out, nil
}

// resolve returns a value with its intrinsic functions evaluated.
func (d *deployment) resolve(s *stack, v any) (_ any, err error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			if out[i], err = d.resolve(s, e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		for name, arg := range v {
			if len(v) == 1 && (name == "Ref" || strings.HasPrefix(name, "Fn::")) {
				return d.call(s, name, arg)
			}
		}
		return d.members(s, v)
	}
	return v, nil
}

// members resolves the members of an object, always in the same order.
func (d *deployment) members(s *stack, v map[string]any) (_ map[string]any, err error) {
	out := make(map[string]any, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if out[name], err = d.resolve(s, v[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// call evaluates an intrinsic function.
func (d *deployment) call(s *stack, name string, arg any) (any, error) {
	text, is := arg.(string)
	switch {
	case name == "Ref" && is:
		return d.ref(s, text)
	case name == "Fn::Sub" && is:
		return d.sub(s, text)
	case name == "Fn::ImportValue" && is:
		return d.imported(text)
	}
	if list, is := arg.([]any); is && name == "Fn::GetAtt" && len(list) == 2 {
		id, isID := list[0].(string)
		attribute, isName := list[1].(string)
		if isID && isName {
			out, err := d.resource(s, id)
			if err != nil {
				return nil, err
			}
			if value, known := out.named(attribute); known {
				return value, nil
			}
		}
	}
	return nil, fmt.Errorf("%s of %v is not known here", name, arg)
}

// ref returns the value of a pseudo parameter or of a resource, or, of a name
// with a dot, that of an attribute.
func (d *deployment) ref(s *stack, name string) (string, error) {
	if value, found := d.pseudo[name]; found {
		return value, nil
	}
	if id, attribute, dotted := strings.Cut(name, "."); dotted {
		value, err := d.call(s, "Fn::GetAtt", []any{id, attribute})
		if err != nil {
			return "", err
		}
		return value.(string), nil
	}
	out, err := d.resource(s, name)
	if err != nil {
		return "", err
	}
	return out.Ref, nil
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// sub replaces the ${names} in a text.
func (d *deployment) sub(s *stack, text string) (_ string, err error) {
	filled := variable.ReplaceAllStringFunc(text, func(match string) string {
		value, failed := d.ref(s, match[2:len(match)-1])
		if err == nil {
			err = failed
		}
		return value
	})
	return filled, err
}

// imported returns the value that a stack exports under a name.
func (d *deployment) imported(name string) (any, error) {
	for _, s := range d.stacks {
		for _, out := range s.Outputs {
			if out.Export.Name == name {
				return d.resolve(s, out.Value)
			}
		}
	}
	return nil, fmt.Errorf("no stack exports %s", name)
}
