package httpapi

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/run/registry"
)

// texts are the constraints that a text of a body or a parameter has by its tag
// is, so that each of them stands in one place and not in the tags of all fields:
//
//	FlowName string `path:"flow_name" is:"name"`
//
// An empty text counts as none where the tag says so.
var texts = map[string]struct {
	pattern   string
	maxLength int
}{
	"name":          {registry.NamePattern, registry.MaxName},
	"name or empty": {orEmpty(registry.NamePattern), registry.MaxName},
}

// orEmpty allows an empty text besides what a whole pattern matches.
func orEmpty(pattern string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
	return "^(" + inner + ")?$"
}

// constrain sets the constraints of a field's tag is. It panics on one that is
// not known, and on a field that is no text.
func constrain(f reflect.StructField, s *huma.Schema) {
	tag, ok := f.Tag.Lookup("is")
	if !ok {
		return
	}
	text, known := texts[tag]
	if !known || s == nil || s.Type != huma.TypeString {
		panic(fmt.Sprintf("httpapi: field %s cannot be %q", f.Name, tag))
	}
	s.Pattern, s.MaxLength = text.pattern, &text.maxLength
}
