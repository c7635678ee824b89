package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Environment is where the templates are deployed.
type Environment struct {
	Region     string            // AWS::Region
	AccountID  string            // AWS::AccountId
	Parameters map[string]string // in place of the templates' defaults, by name

	// Dynamic is the value of a reference such as
	// {{resolve:secretsmanager:ARN:SecretString}}, given what stands after
	// "resolve:". Nil: there are none.
	Dynamic func(reference string) (string, error)
}

// Partition and URLSuffix are the pseudo parameters of the same names.
const (
	Partition = "aws"
	URLSuffix = "amazonaws.com"
)

// Attributes are what other resources can learn of one that was made.
type Attributes struct {
	Ref string
	Att map[string]string // of Fn::GetAtt
}

// Made is a resource of which the properties are known.
type Made struct {
	*Resource
	Properties map[string]any // resolved
	Attributes Attributes
}

// Maker makes a resource of which the properties are resolved, and returns what
// others may refer to.
type Maker func(ctx context.Context, r *Resource, properties map[string]any) (Attributes, error)

// Deploy makes every resource after those that it refers to, always in the same
// order, and returns them in it. Errors: the first of a reference that leads
// nowhere, of a circle, of make.
func (a *Assembly) Deploy(ctx context.Context, env Environment, make Maker) ([]Made, error) {
	d := &deployment{ctx: ctx, assembly: a, env: env, make: make, made: map[*Resource]*Made{}}
	for _, s := range a.Stacks {
		for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
			wanted, err := d.wanted(s.Resources[id])
			if err != nil {
				return nil, err
			}
			if !wanted {
				continue
			}
			if _, err := d.resource(s.Resources[id]); err != nil {
				return nil, err
			}
		}
	}
	return d.order, nil
}

// PhysicalName is a name for a resource that has none: the stack's, the logical
// id without the hash that the CDK appends, in small letters.
func (r *Resource) PhysicalName() string {
	id := r.ID
	if n := len(id) - 8; n > 0 && strings.Trim(id[n:], "0123456789ABCDEF") == "" {
		id = id[:n]
	}
	return strings.ToLower(r.Stack.Name + "-" + id)
}

// deployment is one Deploy under way.
type deployment struct {
	ctx      context.Context
	assembly *Assembly
	env      Environment
	make     Maker
	made     map[*Resource]*Made // nil: under way
	path     []string            // resources under way, for the error of a circle
	order    []Made
}

// wanted reports whether the resource's condition holds.
func (d *deployment) wanted(r *Resource) (bool, error) {
	if r.Condition == "" {
		return true, nil
	}
	return (&scope{d, r.Stack, r.String()}).condition(r.Condition)
}

// resource makes a resource, unless it has been made.
func (d *deployment) resource(r *Resource) (*Made, error) {
	if m, begun := d.made[r]; begun {
		if m == nil {
			return nil, fmt.Errorf("template: resources refer to each other: %s, %s", strings.Join(d.path, ", "), r)
		}
		return m, nil
	}
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	d.made[r] = nil
	d.path = append(d.path, r.String())
	defer func() { d.path = d.path[:len(d.path)-1] }()

	needed, err := r.dependsOn()
	if err != nil {
		return nil, err
	}
	for _, name := range needed {
		other, found := r.Stack.Resources[name]
		if !found {
			return nil, fmt.Errorf("template: %s depends on %s, which its stack lacks", r, name)
		}
		if wanted, err := d.wanted(other); err != nil || !wanted {
			if err != nil {
				return nil, err
			}
			continue
		}
		if _, err := d.resource(other); err != nil {
			return nil, err
		}
	}
	value, err := (&scope{d, r.Stack, r.String()}).resolve(orEmpty(r.Properties))
	if err != nil {
		return nil, err
	}
	properties := value.(map[string]any)
	attributes, err := d.make(d.ctx, r, properties)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	m := &Made{Resource: r, Properties: properties, Attributes: attributes}
	d.made[r] = m
	d.order = append(d.order, *m)
	return m, nil
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// imported is the value of an export.
func (d *deployment) imported(name string) (any, error) {
	for _, s := range d.assembly.Stacks {
		for _, id := range slices.Sorted(maps.Keys(s.Outputs)) {
			out := s.Outputs[id]
			if out.Export.Name == nil {
				continue
			}
			inner := &scope{d, s, s.Name + "." + id}
			exported, err := inner.text(out.Export.Name)
			if err != nil {
				return nil, err
			}
			if exported == name {
				return inner.resolve(out.Value)
			}
		}
	}
	return nil, errors.New("no stack exports " + name)
}
