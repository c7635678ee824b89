package flowspec

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

// Object reads the fields of a JSON object strictly: each wrong type and each
// missing or unknown field is reported, and reading continues. A null field
// counts as absent.
type Object struct {
	loc       []any
	fields    map[string]any
	faults    *faults
	templated bool // strings with ${{ may have a value of any type
	mapped    bool // the config of a task with map_over
	failed    bool // on_failure, or its config
}

// faults collects errors, up to a limit.
type faults struct{ list []errs.Detail }

func (f *faults) add(kind string, loc []any, input any, format string, args ...any) {
	if len(f.list) >= maxFaults {
		return
	}
	f.list = append(f.list, errs.Detail{Type: kind, Loc: loc, Msg: fmt.Sprintf(format, args...), Input: short(input)})
}

// short returns scalars and truncated text, so that an error does not contain
// the whole spec.
func short(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > 200 {
			return strings.ToValidUTF8(v[:200], "") + "…"
		}
	case []any, map[string]any:
		return nil
	}
	return v
}

func at(loc []any, path ...any) []any { return slices.Concat(loc, path) }

// Fault reports an error of type value_error at a path below the object.
func (o *Object) Fault(input any, path []any, format string, args ...any) {
	o.faults.add("value_error", at(o.loc, path...), input, format, args...)
}

// Only reports every unknown field.
func (o *Object) Only(known ...string) {
	for _, k := range slices.Sorted(maps.Keys(o.fields)) {
		if !slices.Contains(known, k) {
			o.faults.add("extra_forbidden", at(o.loc, k), o.fields[k], "there is no field %q here", clip(k))
		}
	}
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// Has reports whether the field is present and not null.
func (o *Object) Has(name string) bool { return o.fields[name] != nil }

// Given reports whether the field is present, even if it is null.
func (o *Object) Given(name string) bool {
	_, given := o.fields[name]
	return given
}

// Require reports fields that are absent.
func (o *Object) Require(names ...string) {
	for _, name := range names {
		if !o.Has(name) {
			o.faults.add("missing", at(o.loc, name), nil, "%s is required", name)
		}
	}
}

// Value returns a field as plain JSON, nil if it is absent.
func (o *Object) Value(name string) any { return o.fields[name] }

// Templated reports whether the field is a string with an expression, whose
// value is known only when the task runs.
func (o *Object) Templated(name string) bool { return o.templated && IsTemplate(o.fields[name]) }

// IsTemplate reports whether a value is a string with an expression.
func IsTemplate(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, "${{")
}

// Text returns a string field. ok is false if it is absent, invalid, or a
// template.
func (o *Object) Text(name string) (string, bool) {
	v := o.fields[name]
	if v == nil || o.Templated(name) {
		return "", false
	}
	s, ok := v.(string)
	if !ok {
		o.faults.add("string_type", at(o.loc, name), v, "%s must be a string", name)
	}
	return s, ok
}

// Number returns a numeric field within bounds. ok is false as for
// [Object.Text].
func (o *Object) Number(name string, low, high float64) (float64, bool) {
	v := o.fields[name]
	if v == nil || o.Templated(name) {
		return 0, false
	}
	var n float64
	switch v := v.(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		o.faults.add("float_type", at(o.loc, name), v, "%s must be a number", name)
		return 0, false
	}
	if n < low || n > high {
		o.Fault(v, []any{name}, "%s must be from %s to %s", name, number(low), number(high))
		return 0, false
	}
	return n, true
}

// Int returns an integer field within bounds. ok is false as for [Object.Text].
func (o *Object) Int(name string, low, high int) (int, bool) {
	v := o.fields[name]
	if v == nil || o.Templated(name) {
		return 0, false
	}
	n, ok := Integer(v)
	if !ok {
		o.faults.add("int_type", at(o.loc, name), v, "%s must be a whole number", name)
		return 0, false
	}
	if n < int64(low) || n > int64(high) {
		o.Fault(v, []any{name}, "%s must be from %d to %d", name, low, high)
		return 0, false
	}
	return int(n), true
}

// Integer converts a value to an integer. ok is false if it is not one.
func Integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	}
	return 0, false
}

func number(f float64) string {
	if f == math.Trunc(f) {
		return fmt.Sprintf("%d", int64(f))
	}
	return fmt.Sprintf("%g", f)
}

// Object returns an object field, nil where [Object.Text] returns false.
func (o *Object) Object(name string) *Object {
	v := o.fields[name]
	if v == nil || o.Templated(name) {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		o.faults.add("dict_type", at(o.loc, name), v, "%s must be an object", name)
		return nil
	}
	return &Object{loc: at(o.loc, name), fields: m, faults: o.faults, templated: o.templated}
}

// List returns a list field, nil where [Object.Text] returns false.
func (o *Object) List(name string) []any {
	v := o.fields[name]
	if v == nil || o.Templated(name) {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		o.faults.add("list_type", at(o.loc, name), v, "%s must be a list", name)
	}
	return list
}

// Keys returns the names of the fields, sorted.
func (o *Object) Keys() []string { return slices.Sorted(maps.Keys(o.fields)) }
