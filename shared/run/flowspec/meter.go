package flowspec

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/regex"
)

// The library counts nothing: a schema of a few hundred bytes may take hours to
// apply, compare each of fifty thousand values with each of as many others, or
// match a pattern whose states take all memory. A meter runs before each
// subschema wherever it is applied. It charges for the library's own work
// there, and replaces type, const, enum and uniqueItems by implementations that
// are linear in the value.

// meter charges the validations of one schema to a budget, one at a time.
type meter struct {
	turn   chan struct{}
	budget *budget.Budget
	depth  int // nesting depth of the value
	wide   int // how often the properties and elements of a value are traversed
}

func newMeter() *meter { return &meter{turn: make(chan struct{}, 1), wide: 1} }

// Costs of a subschema.
const (
	visitSteps = 4
	visitBytes = 200
	errorBytes = 300 // of the error that it may report
)

// attach inserts the meter before a compiled schema, and before the boolean
// ones directly below it. It uses the library's format check, which runs last
// among the checks of the value itself.
func (m *meter) attach(s *jsonschema.Schema) {
	r := &rule{meter: m, schema: s, format: s.Format, fixed: visitSteps + listed(s)}
	if s.Types != nil && !s.Types.IsEmpty() {
		r.types = s.Types.ToStrings()
		s.Types = nil
	}
	if s.Const != nil {
		r.constant = new(canonical(*s.Const))
		r.want = *s.Const
		s.Const = nil
	}
	if s.Enum != nil {
		r.enum = make(map[string]bool, len(s.Enum.Values))
		for _, v := range s.Enum.Values {
			r.enum[canonical(v)] = true
		}
		r.values = s.Enum.Values[:min(len(s.Enum.Values), 40)] // a message shows no more
		s.Enum = nil
	}
	if s.UniqueItems {
		s.UniqueItems = false
		s.Extensions = append(s.Extensions, unique{m})
	}
	r.numeric = s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
	r.measured = s.MinLength != nil || s.MaxLength != nil || s.Format != nil
	if s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		m.wide = 4 // all of them record what they have evaluated
	}
	m.before(s, r.check)
	for below := range children(s) {
		if below.Bool != nil && !*below.Bool {
			below.Bool = nil
			m.before(below, func(any) error {
				m.charge(visitSteps, visitBytes+errorBytes)
				return violation{&kind.FalseSchema{}}
			})
		}
	}
}

func (m *meter) before(s *jsonschema.Schema, check func(any) error) {
	f := &jsonschema.Format{Name: "meter", Validate: check}
	if s.Format != nil {
		f.Name = s.Format.Name
	}
	s.Format = f
}

func (m *meter) charge(steps, bytes int) {
	budget.Must(m.budget.Spend(steps))
	budget.Must(m.budget.Take(bytes))
}

// violation passes an error of the library's own kind through its format check.
type violation struct{ kind jsonschema.ErrorKind }

func (violation) Error() string { return "violation" }

// rule is the meter's data about one subschema.
type rule struct {
	meter    *meter
	schema   *jsonschema.Schema
	fixed    int // steps for any value
	types    []string
	constant *string
	want     any // the value of constant
	enum     map[string]bool
	values   []any // of enum
	format   *jsonschema.Format
	numeric  bool // a number is compared
	measured bool // a text is gone through
}

// check charges for applying the subschema to v, without its own subschemas,
// and runs the checks that the meter replaces.
func (r *rule) check(v any) error {
	r.meter.charge(r.fixed+r.cost(v), visitBytes)
	if r.schema.DynamicRef != nil || r.schema.RecursiveRef != nil {
		r.meter.charge(r.meter.depth+1, 0) // the library searches the enclosing schemas
	}
	if r.types != nil {
		if got, ok := typeOf(v, r.types); !ok {
			return r.fail(&kind.Type{Got: got, Want: r.types})
		}
	}
	if r.constant != nil || r.enum != nil {
		n := weight(v)
		r.meter.charge(2*n, 64*n)
		text := canonical(v)
		if r.constant != nil && text != *r.constant {
			return r.fail(&kind.Const{Got: v, Want: r.want})
		}
		if r.enum != nil && !r.enum[text] {
			return r.fail(&kind.Enum{Got: v, Want: r.values})
		}
	}
	if r.format != nil {
		return r.format.Validate(v)
	}
	return nil
}

func (r *rule) fail(k jsonschema.ErrorKind) error {
	r.meter.charge(0, errorBytes)
	return violation{k}
}

// cost returns the steps that the library takes on the value itself.
func (r *rule) cost(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return r.meter.wide * len(v)
	case []any:
		return r.meter.wide * len(v)
	case string:
		if r.measured {
			return len(v) / 64
		}
	case json.Number:
		if r.numeric || r.types != nil {
			return len(v) / 4
		}
	}
	return 0
}

// metered is a pattern that charges before it matches.
type metered struct {
	*regex.Regexp
	meter *meter
}

// pattern compiles a pattern of the schema.
func (m *meter) pattern(s string) (jsonschema.Regexp, error) {
	re, err := regex.Compile(s)
	if err != nil {
		return nil, err
	}
	return &metered{re, m}, nil
}

// MatchString implements jsonschema.Regexp.
func (p *metered) MatchString(s string) bool {
	if p.meter.budget != nil { // nil while the schema itself is checked
		p.meter.charge(p.Cost(len(s)), 0)
	}
	return p.Regexp.MatchString(s)
}

// unique implements uniqueItems.
type unique struct{ meter *meter }

// Validate implements jsonschema.SchemaExt.
func (u unique) Validate(ctx *jsonschema.ValidatorContext, v any) {
	list, ok := v.([]any)
	if !ok || len(list) < 2 {
		return
	}
	n := weight(v)
	u.meter.charge(2*n, 64*n)
	seen := make(map[string]int, len(list))
	for i, e := range list {
		text := canonical(e)
		if first, twice := seen[text]; twice {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[text] = i
	}
}
