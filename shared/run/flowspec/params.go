package flowspec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"millrace/shared/platform/budget"
	"millrace/shared/platform/errs"
	"millrace/shared/run/expr"
)

var paramsLoc = errs.Body("parameters")

// checking is the budget for the parameters of one run.
var checking = budget.Limits{Steps: 2_000_000, Bytes: 64 << 20}

// schema checks the parameters schema of a flow_spec.
func (p *parser) schema(v any) {
	loc := at(specLoc, "parameters")
	root := v.(map[string]any)
	if t, has := root["type"]; has && t != "object" {
		p.faults.add("value_error", at(loc, "type"), t, `the type of parameters must be "object"`)
		return
	}
	var s *schema
	raw, err := expr.Encode(v)
	if err == nil {
		s, err = compileSchema(p.budget, raw)
	}
	if err == nil {
		if path := checkDefaults(s.root); path != nil {
			p.faults.add("value_error", at(loc, path...), nil, "the defaults of this object would add more than %d bytes", maxDefaults)
		}
		return
	}
	var meta *jsonschema.SchemaValidationError
	if errors.As(err, &meta) {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](meta.Err); ok {
			p.faults.list = append(p.faults.list, violations(loc, invalid, v)...)
			return
		}
	}
	if p.budget.Err() != nil {
		return // reported before
	}
	p.faults.add("value_error", loc, nil, "parameters is not a valid JSON Schema: %s", schemaProblem(err))
}

// schemaProblem returns the library's sentence without its internal URL.
func schemaProblem(err error) string {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return "it refers to " + clip(strings.TrimPrefix(load.URL, "mem:///")) + ": " + load.Err.Error()
	}
	if _, ok := errors.AsType[*budget.PanicError](err); ok {
		return "it " + err.Error()
	}
	return strings.ReplaceAll(err.Error(), schemaURL, "")
}

// CheckParams fills in the schema's defaults, of the parameters and of objects
// in them, and checks the result. Keys for which injected (nil for none)
// returns true belong to the service: they are kept, count as present, and are
// not checked. Each violation has its place below ["body","parameters"]. Too
// much work is a violation, too; it ends early with ctx.
func (f *Flow) CheckParams(ctx context.Context, params map[string]json.RawMessage, injected func(key string) bool) (map[string]json.RawMessage, []errs.Detail) {
	b, end := budget.New(ctx, checking)
	defer end()
	s, err := f.schema(b)
	if err != nil {
		return nil, []errs.Detail{unusable()}
	}
	out := maps.Clone(params)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	values, depth, bad := decodeParams(params, injected)
	if len(bad) > 0 {
		return nil, bad
	}
	if s.root == nil {
		return out, nil
	}
	if bad := s.fill(b, values, out, func(key string) bool {
		_, own := params[key]
		return own && injected != nil && injected(key) // the service sets its value
	}); len(bad) > 0 {
		return nil, bad
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
	if bad := s.check(ctx, b, s.compiled, values, depth, given); len(bad) > 0 {
		return nil, bad
	}
	return out, nil
}

// Known returns those of the values that the flow's schema names: all, unless
// it says that there are no others, as that of a Python signature does. Errors:
// errs.Unprocessable for a schema that cannot be used; the cause of ctx's end.
func (f *Flow) Known(ctx context.Context, values map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	b, end := budget.New(ctx, checking)
	defer end()
	s, err := f.schema(b)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, errs.Validation(unusable())
	}
	if others, ok := s.root["additionalProperties"].(bool); !ok || others || s.root["patternProperties"] != nil {
		return values, nil
	}
	named, _ := s.root["properties"].(map[string]any)
	out := map[string]json.RawMessage{}
	for key, value := range values {
		if _, ok := named[key]; ok {
			out[key] = value
		}
	}
	return out, nil
}

// unusable is the violation of any parameters by a schema that cannot be used.
func unusable() errs.Detail {
	return errs.Detail{Type: "value_error", Loc: paramsLoc, Msg: "the flow's parameters schema cannot be used"}
}

// fill applies the defaults to values, and records in out how they changed
// parameters that are not kept.
func (s *schema) fill(b *budget.Budget, values map[string]any, out map[string]json.RawMessage, kept func(string) bool) []errs.Detail {
	changed, err := applyDefaults(b, s.root, s.root, values, 0)
	if err != nil {
		return []errs.Detail{tooMuch(err)}
	}
	size := 0
	for key, filled := range changed {
		if !filled || kept(key) {
			continue
		}
		if size += jsonSize(values[key]); size > maxFilled {
			return []errs.Detail{{Type: "value_error", Loc: paramsLoc, Msg: fmt.Sprintf("with their defaults the parameters would have more than %d bytes", maxFilled)}}
		}
		raw, err := expr.Encode(values[key])
		if err != nil {
			return []errs.Detail{{Type: "value_error", Loc: at(paramsLoc, key), Msg: err.Error()}}
		}
		out[key] = raw
	}
	return nil
}

// tooMuch returns the error for parameters that could not be checked.
func tooMuch(err error) errs.Detail {
	msg := "the check was given up"
	if _, ok := errors.AsType[*budget.PanicError](err); ok {
		msg = "the parameters " + err.Error()
	}
	if used, ok := errors.AsType[*budget.Exceeded](err); ok {
		msg = "the flow's parameters schema " + used.Error() + " for one set of parameters"
	}
	return errs.Detail{Type: "value_error", Loc: paramsLoc, Msg: msg}
}

// CheckDefaults checks parameters that a run may complete, such as those of a
// deployment or schedule: required ones may be missing. The error is an
// [*errs.Error] with one entry per violation, or the cause of ctx's end.
func (f *Flow) CheckDefaults(ctx context.Context, params map[string]json.RawMessage) error {
	b, end := budget.New(ctx, checking)
	defer end()
	s, err := f.schema(b)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return errs.Validation(unusable())
	}
	values, depth, bad := decodeParams(params, nil)
	if len(bad) == 0 && s.root != nil {
		optional, err := s.optional()
		if err != nil {
			return err
		}
		bad = s.check(ctx, b, optional, values, depth, nil)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(bad) > 0 {
		return errs.Validation(bad...)
	}
	return nil
}

func (s *schema) check(ctx context.Context, b *budget.Budget, compiled *jsonschema.Schema, values map[string]any, depth int, given func(string) bool) []errs.Detail {
	err := s.meter.validate(ctx, b, compiled, values, depth)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []errs.Detail{tooMuch(err)}
	}
	if given != nil {
		forgive(invalid, given)
	}
	return violations(paramsLoc, invalid, values)
}

// decodeParams decodes the values with exact numbers, and returns their nesting
// depth.
func decodeParams(params map[string]json.RawMessage, skip func(string) bool) (values map[string]any, depth int, bad []errs.Detail) {
	values = make(map[string]any, len(params))
	for _, key := range slices.Sorted(maps.Keys(params)) {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(params[key]))
		if err != nil && (skip == nil || !skip(key)) {
			bad = append(bad, errs.Detail{Type: "json_invalid", Loc: at(paramsLoc, key), Msg: "this is not valid JSON"})
			continue
		}
		d, err := checkNumbers(v, 1)
		if err != nil && (skip == nil || !skip(key)) {
			bad = append(bad, errs.Detail{Type: "value_error", Loc: at(paramsLoc, key), Msg: err.Error()})
			continue
		}
		values[key], depth = v, max(depth, d)
	}
	return values, depth, bad
}

// forgive removes the given keys from the missing ones at the top level.
func forgive(e *jsonschema.ValidationError, given func(string) bool) {
	if r, ok := e.ErrorKind.(*kind.Required); ok && len(e.InstanceLocation) == 0 {
		r.Missing = slices.DeleteFunc(r.Missing, given)
	}
	for _, cause := range e.Causes {
		forgive(cause, given)
	}
}
