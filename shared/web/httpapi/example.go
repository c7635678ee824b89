package httpapi

import (
	stdjson "encoding/json"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Example is a request body as a user would send it, in JSON. Without one the
// description shows what the example tags of the body's fields, their defaults
// and their enums make: required fields, and optional ones that have a tag.
func Example(body string) Option { return func(op *Operation) { op.Example = body } }

// exampleOf is the example of an operation's body; nil where there is none. It
// panics on one that the operation would refuse.
func (a *API) exampleOf(op *Operation, b *body, schema *huma.Schema) any {
	text := []byte(op.Example)
	if len(text) == 0 {
		derived, complete := a.derived(schema)
		if fields, isObject := derived.(map[string]any); !complete || isObject && len(fields) == 0 {
			return nil
		}
		var err error
		if text, err = stdjson.Marshal(derived); err != nil {
			panic(fmt.Sprintf("httpapi: operation %s: its example: %v", op.ID, err))
		}
	}
	if details, _, err := b.shape.check(text); err != nil || len(details) > 0 {
		panic(fmt.Sprintf("httpapi: operation %s would refuse its example %s: %v %+v", op.ID, text, err, details))
	}
	return stdjson.RawMessage(text)
}

// derived makes a value of what a schema says, and reports whether nothing that is
// required is missing from it.
func (a *API) derived(s *huma.Schema) (any, bool) {
	switch {
	case s.Ref != "":
		return a.derived(a.document.Components.Schemas.SchemaFromRef(s.Ref))
	case len(s.Examples) > 0:
		return s.Examples[0], true
	case s.Default != nil:
		return s.Default, true
	case len(s.Enum) > 0:
		return s.Enum[0], true
	case s.Type == huma.TypeArray && s.Items != nil:
		item, complete := a.derived(s.Items)
		return []any{item}, complete
	case s.Type == huma.TypeObject && s.Properties != nil:
		out := map[string]any{}
		for name, property := range s.Properties {
			required := slices.Contains(s.Required, name)
			if !required && len(property.Examples) == 0 {
				continue
			}
			value, complete := a.derived(property)
			if !complete {
				return nil, false
			}
			out[name] = value
		}
		return out, true
	}
	return nil, false
}
