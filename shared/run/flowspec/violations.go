package flowspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"millrace/shared/platform/errs"
)

var english = sync.OnceValue(func() *message.Printer { return message.NewPrinter(language.English) })

// violations returns the errors of a schema for a value at loc.
func violations(loc []any, e *jsonschema.ValidationError, value any) []errs.Detail {
	f := &faults{}
	leaves(f, loc, e, value)
	// The library iterates over maps, so sort the errors to report the same one
	// each time.
	slices.SortStableFunc(f.list, func(a, b errs.Detail) int {
		return cmp.Or(cmp.Compare(fmt.Sprint(a.Loc...), fmt.Sprint(b.Loc...)), cmp.Compare(a.Msg, b.Msg))
	})
	return f.list
}

func leaves(f *faults, loc []any, e *jsonschema.ValidationError, root any) {
	if len(f.list) >= maxFaults {
		return
	}
	location, value := locate(loc, e.InstanceLocation, root)
	if f, ok := e.ErrorKind.(*kind.Format); ok {
		if v, ok := errors.AsType[violation](f.Err); ok {
			e.ErrorKind = v.kind
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			f.add("missing", at(location, name), nil, "%s is required", name)
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			f.add("extra_forbidden", at(location, name), field(value, name), "there is no parameter %q here", clip(name))
		}
		return
	case *kind.Type:
		f.add("type_error", location, value, "must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
		return
	case *kind.AnyOf:
		f.add("value_error", location, value, "matches none of the allowed forms")
		return
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			f.add("value_error", location, value, "matches none of the allowed forms")
		} else {
			f.add("value_error", location, value, "matches more than one of the allowed forms")
		}
		return
	case *kind.Format:
		if pattern, ok := k.Got.(string); ok && k.Want == "regex" {
			f.add("value_error", location, value, "'%s' is not valid regex: %s", clip(pattern), clip(k.Err.Error()))
			return
		}
	case *kind.FalseSchema:
		f.add("extra_forbidden", location, value, "no value is allowed here")
		return
	}
	if len(e.Causes) == 0 {
		f.add("value_error", location, value, "%s", clip(e.ErrorKind.LocalizedString(english())))
	}
	for _, cause := range e.Causes {
		leaves(f, loc, cause, root)
	}
}

// locate converts the path within a value to a loc, and returns the value
// there.
func locate(loc []any, path []string, value any) ([]any, any) {
	out := at(loc)
	for _, token := range path {
		if list, ok := value.([]any); ok {
			i, err := strconv.Atoi(token)
			if err == nil && i < len(list) {
				out, value = append(out, i), list[i]
				continue
			}
		}
		out, value = append(out, token), field(value, token)
	}
	return out, value
}

func field(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}
