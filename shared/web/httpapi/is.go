package httpapi

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/run/registry"
)

// texts are the named constraints of texts in bodies and parameters. The tag is
// refers to them, so that each is defined in one place:
//
//	FlowName string `path:"flow_name" is:"name"`
//
// An empty text counts as absent where the tag says so. A title is what a person
// calls a thing: any characters on one line, not only white space.
var texts = map[string]struct {
	pattern   string
	maxLength int
	format    string // instead of a pattern and a length
}{
	"name":          {registry.NamePattern, registry.MaxName, ""},
	"name or empty": {orEmpty(registry.NamePattern), registry.MaxName, ""},
	titleFormat:     {"", 0, titleFormat},
}

const titleFormat = "title"

// orEmpty extends a pattern for a whole text to allow the empty text.
func orEmpty(pattern string) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
	return "^(" + inner + ")?$"
}

// constrain applies a field's tag is to its schema. It panics on an unknown
// tag, and on a field that is not a text.
func constrain(f reflect.StructField, s *huma.Schema) {
	tag, ok := f.Tag.Lookup("is")
	if !ok {
		return
	}
	text, known := texts[tag]
	if !known || s == nil || s.Type != huma.TypeString {
		panic(fmt.Sprintf("httpapi: field %s cannot be %q", f.Name, tag))
	}
	if text.format != "" {
		s.Format = text.format
		return
	}
	s.Pattern, s.MaxLength = text.pattern, &text.maxLength
}
