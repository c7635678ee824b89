package flowspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"millrace/shared/errs"
	"millrace/shared/expr"
)

var paramsLoc = errs.Body("parameters")

// schema checks the parameters of a flow_spec.
func (p *parser) schema(v any) {
	loc := at(specLoc, "parameters")
	root := v.(map[string]any)
	if t, has := root["type"]; has && t != "object" {
		p.faults.add("value_error", at(loc, "type"), t, `the type of parameters must be "object"`)
		return
	}
	raw, err := expr.Encode(v)
	if err == nil {
		_, err = compileSchema(raw)
	}
	if err == nil {
		return
	}
	var meta *jsonschema.SchemaValidationError
	if errors.As(err, &meta) {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](meta.Err); ok {
			p.faults.list = append(p.faults.list, violations(loc, invalid, v)...)
			return
		}
	}
	p.faults.add("value_error", loc, nil, "parameters is not a valid JSON Schema: %s", schemaProblem(err))
}

// schemaProblem is the library's sentence without the made-up address.
func schemaProblem(err error) string {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return "it refers to " + clip(strings.TrimPrefix(load.URL, "mem:///")) + ": " + load.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), schemaURL, "")
}

// CheckParams fills in the schema's defaults, of the parameters and of the
// objects among them, and checks the result. Keys for which injected is true
// (nil for none) are the service's own: they are kept, meet a requirement, and
// are not checked. Each violation has its place below ["body","parameters"].
func (f *Flow) CheckParams(params map[string]json.RawMessage, injected func(key string) bool) (map[string]json.RawMessage, []errs.Detail) {
	s, err := f.schema()
	if err != nil {
		return nil, []errs.Detail{{Type: "value_error", Loc: paramsLoc, Msg: "the flow's parameters schema cannot be used"}}
	}
	out := maps.Clone(params)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	values, bad := decodeParams(params, injected)
	if len(bad) > 0 {
		return nil, bad
	}
	if s.root == nil {
		return out, nil
	}
	for key, changed := range applyDefaults(s.root, s.root, values, 0) {
		if !changed {
			continue
		}
		if _, own := params[key]; own && injected != nil && injected(key) {
			continue // its value is the service's
		}
		raw, err := expr.Encode(values[key])
		if err != nil {
			return nil, []errs.Detail{{Type: "value_error", Loc: at(paramsLoc, key), Msg: err.Error()}}
		}
		out[key] = raw
	}
	given := func(key string) bool {
		_, has := params[key]
		return has && injected != nil && injected(key)
	}
	for key := range params {
		if given(key) {
			delete(values, key)
		}
	}
	if bad := s.check(s.compiled, values, given); len(bad) > 0 {
		return nil, bad
	}
	return out, nil
}

// CheckDefaults checks parameters that a run may still add to, those of a
// deployment or schedule: what the schema requires may be missing. The error is
// an [*errs.Error] with one entry per violation.
func (f *Flow) CheckDefaults(params map[string]json.RawMessage) error {
	s, err := f.schema()
	if err != nil {
		return err
	}
	values, bad := decodeParams(params, nil)
	if len(bad) == 0 && s.root != nil {
		optional, err := s.optional()
		if err != nil {
			return err
		}
		bad = s.check(optional, values, nil)
	}
	if len(bad) > 0 {
		return errs.Validation(bad...)
	}
	return nil
}

func (s *schema) check(compiled *jsonschema.Schema, values map[string]any, given func(string) bool) []errs.Detail {
	err := s.meter.validate(compiled, values)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []errs.Detail{{Type: "value_error", Loc: paramsLoc, Msg: err.Error()}}
	}
	if given != nil {
		forgive(invalid, given)
	}
	return violations(paramsLoc, invalid, values)
}

// decodeParams reads the values with every digit of their numbers.
func decodeParams(params map[string]json.RawMessage, skip func(string) bool) (map[string]any, []errs.Detail) {
	values := make(map[string]any, len(params))
	var bad []errs.Detail
	for _, key := range slices.Sorted(maps.Keys(params)) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(params[key]))
		if err != nil && (skip == nil || !skip(key)) {
			bad = append(bad, errs.Detail{Type: "json_invalid", Loc: at(paramsLoc, key), Msg: "this is not valid JSON"})
			continue
		}
		values[key] = v
	}
	return values, bad
}

// applyDefaults fills absent properties of an object, and of the objects that
// are its properties, and yields which properties it changed. References within
// the document are followed.
func applyDefaults(root, s, object map[string]any, depth int) map[string]bool {
	changed := map[string]bool{}
	s = resolve(root, s)
	properties, _ := s["properties"].(map[string]any)
	if depth > 32 {
		return changed
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[key].(map[string]any)
		if property == nil {
			continue
		}
		if _, has := object[key]; !has {
			value, ok := property["default"]
			if !ok {
				value, ok = resolve(root, property)["default"]
			}
			if !ok {
				continue
			}
			object[key] = clone(value)
			changed[key] = true
		}
		if inner, ok := object[key].(map[string]any); ok {
			for _, c := range applyDefaults(root, property, inner, depth+1) {
				changed[key] = changed[key] || c
			}
		}
	}
	return changed
}

// clone copies a default: what is filled in below it must not reach the schema.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// resolve follows references of the form #/a/b.
func resolve(root, s map[string]any) map[string]any {
	for range 16 {
		ref, _ := s["$ref"].(string)
		if !strings.HasPrefix(ref, "#") {
			return s
		}
		var v any = root
		for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
			if token == "" {
				continue
			}
			m, _ := v.(map[string]any)
			v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
		next, ok := v.(map[string]any)
		if !ok {
			return s
		}
		s = next
	}
	return s
}

// forgive drops the given keys from what is missing at the top.
func forgive(e *jsonschema.ValidationError, given func(string) bool) {
	if r, ok := e.ErrorKind.(*kind.Required); ok && len(e.InstanceLocation) == 0 {
		r.Missing = slices.DeleteFunc(r.Missing, given)
	}
	for _, cause := range e.Causes {
		forgive(cause, given)
	}
}
