package httpapi

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"

	"millrace/shared/platform/errs"
)

// param is a parameter of an operation: a field of its input.
type param struct {
	in, name string // path, query or header
	path     []int  // of the field
	shape    *shape
	required bool
	hidden   bool
	def      reflect.Value // default, if valid
	doc      string
	schema   *huma.Schema
}

// locations are the tags of parameters.
var locations = []string{"path", "query", "header"}

// paramsOf returns the parameters of an input. It panics on an input that
// embeds an unexported struct, whose fields cannot be set.
func (a *API) paramsOf(op *Operation, t reflect.Type) []param {
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("httpapi: operation %s: input %s is no struct", op.ID, t))
	}
	return a.paramsIn(op, t, nil)
}

func (a *API) paramsIn(op *Operation, t reflect.Type, path []int) (out []param) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(path), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if !f.IsExported() {
				panic(fmt.Sprintf("httpapi: operation %s: input %s embeds %s, whose parameters would stay empty", op.ID, t, f.Type))
			}
			out = append(out, a.paramsIn(op, f.Type, at)...)
			continue
		}
		for _, in := range locations {
			if name := f.Tag.Get(in); name != "" {
				out = append(out, a.param(in, name, f, at))
			}
		}
	}
	return out
}

func (a *API) param(in, name string, f reflect.StructField, path []int) param {
	schema := huma.SchemaFromField(a.document.Components.Schemas, f, "")
	schema.Nullable = false // an absent parameter is not null
	constrain(f, schema)
	p := param{
		in: in, name: name, path: path, schema: schema, doc: schema.Description,
		required: in == "path" || f.Tag.Get("required") == "true", hidden: f.Tag.Get("hidden") == "true",
	}
	p.shape = a.shapes.shape(f.Type, schema)
	p.shape.secret = f.Tag.Get("secret") == "true" || sensitive(name)
	if def, ok := f.Tag.Lookup("default"); ok {
		p.def = defaultOf(f.Type, def)
	}
	return p
}

// readParams sets the parameters of an input and returns what is wrong with
// them. An empty parameter counts as absent. A query that has one several times
// is rejected: no operation would take more than one of the values.
func readParams(in any, params []param, anyQuery bool, r *http.Request) []errs.Detail {
	c := checker{}
	query, _ := url.ParseQuery(r.URL.RawQuery) // checked before
	target := reflect.ValueOf(in).Elem()
	for i := range params {
		p := &params[i]
		var text string
		switch p.in {
		case "path":
			text = pathParam(r, p.name)
		case "query":
			text = query.Get(p.name)
		case "header":
			text = r.Header.Get(p.name)
		}
		c.loc = []any{p.in, p.name}
		switch {
		case p.in == "query" && len(query[p.name]) > 1:
			c.add("value_error", "Input should be given once", nil)
		case text != "":
			c.param(p.shape, text, target.FieldByIndex(p.path))
		case p.required:
			c.add("missing", "Field required", nil)
		case p.def.IsValid():
			target.FieldByIndex(p.path).Set(p.def)
		}
	}
	if !anyQuery {
		c.unknown(params, query)
	}
	return c.details
}

// pathParam returns a parameter of the path, "" if the route has none of the
// name.
func pathParam(r *http.Request, name string) string {
	text := chi.URLParam(r, name)
	if unescaped, err := url.PathUnescape(text); err == nil && r.URL.RawPath != "" {
		return unescaped
	}
	return text
}

// unknown reports the query parameters that an operation does not have.
func (c *checker) unknown(params []param, query url.Values) {
	var names []string
	for name := range query {
		if !slices.ContainsFunc(params, func(p param) bool { return p.in == "query" && p.name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		c.loc = []any{"query", clip(name)}
		c.add("extra_forbidden", "Extra inputs are not permitted", nil)
	}
}

// param validates the text of a parameter against its shape, like a value in a
// body, and sets the field.
func (c *checker) param(s *shape, text string, field reflect.Value) {
	faults := len(c.details)
	for field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	input := any(clip(text))
	if s.secret {
		input = nil
	}
	switch s.kind {
	case stringShape:
		c.text(s, text)
		if len(c.details) == faults {
			setText(field, text)
		}
	case boolShape:
		v, err := strconv.ParseBool(text)
		if err != nil {
			c.add("bool_parsing", "Input should be a valid boolean, unable to interpret input", input)
			return
		}
		field.SetBool(v)
	case integerShape:
		v, err := strconv.ParseInt(text, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			c.add("int_parsing_size", "Input is too large to be an integer here", input)
		case err != nil:
			c.add("int_parsing", "Input should be a valid integer, unable to parse string as an integer", input)
		default:
			c.number(s, jsontext.Value(strconv.FormatInt(v, 10)))
		}
		if len(c.details) == faults {
			setInteger(field, v)
		}
	case numberShape:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			c.add("float_parsing", "Input should be a valid number, unable to parse string as a number", input)
			return
		}
		c.bounds(s.schema, v, v)
		field.SetFloat(v)
	default:
		panic("httpapi: a parameter cannot be " + field.Type().String())
	}
}

func setInteger(field reflect.Value, v int64) {
	if field.CanUint() {
		field.SetUint(uint64(v)) //nolint:gosec // checked against the shape
		return
	}
	field.SetInt(v)
}

// setText sets a field from a validated text.
func setText(field reflect.Value, text string) {
	if reader, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		_ = reader.UnmarshalText([]byte(text)) // validated
		return
	}
	field.SetString(text)
}
