package flowspec

import (
	"fmt"
	"iter"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"millrace/shared/platform/regex"
)

// Limits of a parameters schema.
const (
	maxSchemaBytes  = 256 << 10
	maxSchemaValues = 20_000 // objects, lists and scalars
	maxSubschemas   = 3_000  // objects and booleans
	maxPatterns     = 1_000
	maxChain        = 100     // subschemas applied to one value, each by the previous one
	maxRules        = 100_000 // subschemas that may be applied to one value, without those below it
)

// checkSchema checks a schema against its limits and returns the steps to
// compile it.
func checkSchema(root map[string]any) (steps int, err error) {
	if _, err := checkNumbers(root, 0); err != nil {
		return 0, err
	}
	c := &schemaSize{}
	c.count(root)
	for _, bound := range []struct {
		n, most int
		what    string
	}{
		{c.values, maxSchemaValues, "values"},
		{c.schemas, maxSubschemas, "objects and booleans"},
		{c.patterns, maxPatterns, "patterns"},
	} {
		if bound.n > bound.most {
			return 0, fmt.Errorf("it may have at most %d %s, this one has %d", bound.most, bound.what, bound.n)
		}
	}
	// The library checks each value against its metaschema, and searches all
	// subschemas for each.
	steps = 20*c.values + c.schemas*c.schemas/4 + 2*c.refs*c.schemas + c.patterns*regex.CompileCost(regex.MaxBytes)/4
	return steps, nil
}

// schemaSize counts the parts of a schema. It takes every object and boolean for a
// subschema and every key for a keyword, because a reference may point
// anywhere.
type schemaSize struct{ values, schemas, refs, patterns int }

func (c *schemaSize) count(v any) {
	c.values++
	switch v := v.(type) {
	case bool:
		c.schemas++
	case []any:
		for _, e := range v {
			c.count(e)
		}
	case map[string]any:
		c.schemas++
		for k, e := range v {
			switch k {
			case "$ref", "$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor":
				c.refs++
			case "pattern":
				c.patterns++
			case "patternProperties":
				if m, ok := e.(map[string]any); ok {
					c.patterns += len(m)
				}
			}
			c.count(e)
		}
	}
}

// listed counts what the library traverses at a subschema for any value.
func listed(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	for _, names := range s.DependentRequired {
		n += len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			n += len(names)
		}
	}
	return n
}

// checkRules rejects a schema that would apply too many subschemas to one
// value.
func checkRules(all []*jsonschema.Schema) error {
	w := &walk{seen: make(map[*jsonschema.Schema]*reach, len(all))}
	for _, s := range all {
		switch r := w.reach(s); {
		case r.chain > maxChain:
			return fmt.Errorf("more than %d of its subschemas apply to one value, each through the one before", maxChain)
		case r.rules > maxRules:
			return fmt.Errorf("more than %d of its subschemas apply to one value", maxRules)
		}
	}
	return nil
}

// reach is what a subschema applies to the same value.
type reach struct{ chain, rules int }

type walk struct{ seen map[*jsonschema.Schema]*reach }

// reach stops once it exceeds the limits, because a chain may be as long as the
// schema. In a cycle, which validation reports, it counts each subschema once.
func (w *walk) reach(s *jsonschema.Schema) reach {
	if r, ok := w.seen[s]; ok {
		return *r
	}
	r := &reach{chain: 1, rules: 1}
	w.seen[s] = r
	for next := range inPlace(s) {
		n := w.reach(next)
		r.chain = max(r.chain, n.chain+1)
		r.rules = min(r.rules+n.rules, maxRules+1)
	}
	return *r
}

// inPlace yields the subschemas that s applies to the value itself.
func inPlace(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		lists := [][]*jsonschema.Schema{{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf}
		if s.DynamicRef != nil {
			lists = append(lists, []*jsonschema.Schema{s.DynamicRef.Ref})
		}
		for _, below := range s.DependentSchemas {
			lists = append(lists, []*jsonschema.Schema{below})
		}
		for _, d := range s.Dependencies {
			if below, ok := d.(*jsonschema.Schema); ok {
				lists = append(lists, []*jsonschema.Schema{below})
			}
		}
		emit(lists, yield)
	}
}

// children yields all subschemas that s applies.
func children(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		lists := [][]*jsonschema.Schema{
			{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema},
			s.PrefixItems,
		}
		for below := range inPlace(s) {
			lists = append(lists, []*jsonschema.Schema{below})
		}
		for _, below := range s.Properties {
			lists = append(lists, []*jsonschema.Schema{below})
		}
		for _, below := range s.PatternProperties {
			lists = append(lists, []*jsonschema.Schema{below})
		}
		for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
			switch v := v.(type) {
			case *jsonschema.Schema:
				lists = append(lists, []*jsonschema.Schema{v})
			case []*jsonschema.Schema:
				lists = append(lists, v)
			}
		}
		emit(lists, yield)
	}
}

func emit(lists [][]*jsonschema.Schema, yield func(*jsonschema.Schema) bool) {
	for _, list := range lists {
		for _, s := range list {
			if s != nil && !yield(s) {
				return
			}
		}
	}
}
