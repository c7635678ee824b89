package httpapi

import (
	stdjson "encoding/json"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Example sets the example of a request body, in JSON. Without one the
// description derives an example from the example tags, defaults and enums of
// the body's fields: required fields, and optional ones with a tag.
func Example(body string) Option { return func(op *Operation) { op.Example = body } }

// exampleOf returns the example of an operation's body, or nil if there is
// none. It panics on an example that the operation would reject.
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

// derived builds an example from a schema, and reports whether it has all
// required fields.
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
