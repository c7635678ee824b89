package httpapi

import (
	stdjson "encoding/json"
	"regexp"

	"github.com/danielgtaylor/huma/v2"
)

// reference matches a reference to a schema in a JSON document.
var reference = regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`)

// published returns the description without the schemas that only hidden
// operations use.
func (a *API) published() (*huma.OpenAPI, error) {
	all := a.document.Components.Schemas
	used := map[string]*huma.Schema{}
	var follow func(part any) error
	follow = func(part any) error {
		data, err := stdjson.Marshal(part)
		if err != nil {
			return err
		}
		for _, match := range reference.FindAllSubmatch(data, -1) {
			name := string(match[1])
			if used[name] != nil {
				continue
			}
			used[name] = all.Map()[name]
			if err := follow(used[name]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := follow(a.document.Paths); err != nil {
		return nil, err
	}
	doc, components := *a.document, *a.document.Components
	components.Schemas = someSchemas{Registry: all, of: used}
	doc.Components = &components
	return &doc, nil
}

// someSchemas are the published schemas of a registry.
type someSchemas struct {
	huma.Registry
	of map[string]*huma.Schema
}

// MarshalJSON implements json.Marshaler.
func (s someSchemas) MarshalJSON() ([]byte, error) { return stdjson.Marshal(s.of) }
