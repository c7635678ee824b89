package httpapi

import (
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// shape describes a valid JSON value: a Go type and the constraints of its
// schema, compiled once at registration.
type shape struct {
	kind     shapeKind
	nullable bool
	secret   bool // never echo the value
	bits     int  // of an integer
	unsigned bool
	schema   *huma.Schema // constraints, or nil
	pattern  *regexp.Regexp
	text     reflect.Type // decodes itself from a string

	fields []shapeField
	index  map[string]int // of fields, by name
	open   bool           // an object that accepts unknown fields
	elem   *shape         // of arrays and maps
	of     *shape         // the shape itself, for a recursive type
}

type shapeField struct {
	name     string
	path     []int // in the struct
	shape    *shape
	required bool
	def      reflect.Value // default if the field is absent, if valid
}

type shapeKind int

const (
	anyShape shapeKind = iota
	objectShape
	mapShape
	arrayShape
	stringShape
	bytesShape
	integerShape
	numberShape
	boolShape
)

var (
	describedRaw = reflect.TypeFor[described]()
	rawType      = reflect.TypeFor[stdjson.RawMessage]()
	valueType    = reflect.TypeFor[jsontext.Value]()
	timeType     = reflect.TypeFor[time.Time]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	unmarshalers = []reflect.Type{reflect.TypeFor[stdjson.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom]()}
)

// shaper compiles shapes; recursive types refer to themselves.
type shaper struct {
	registry huma.Registry
	structs  map[reflect.Type]*shape
}

func (c *shaper) shape(t reflect.Type, s *huma.Schema) *shape {
	if s != nil && s.Ref != "" {
		s = c.registry.SchemaFromRef(s.Ref)
	}
	if s != nil && len(s.AnyOf) == 2 && s.AnyOf[0].Ref != "" { // a nullable reference, see documentNull
		s = c.registry.SchemaFromRef(s.AnyOf[0].Ref)
	}
	out := &shape{schema: s}
	if s != nil {
		out.nullable = s.Nullable
		if s.Pattern != "" {
			out.pattern = regexp.MustCompile(s.Pattern)
		}
	}
	for t.Kind() == reflect.Pointer {
		t, out.nullable = t.Elem(), true
	}
	ptr := reflect.PointerTo(t)
	switch {
	case t == rawType || t == valueType || t.Kind() == reflect.Interface:
		out.nullable = true
		return out
	case t.Implements(describedRaw):
		out.nullable, out.schema = true, nil
		return out
	case t == timeType:
		out.kind, out.text = stringShape, timeType
		return out
	case slices.ContainsFunc(unmarshalers, ptr.Implements):
		out.nullable = true // it decodes itself and reports errors
		return out
	case ptr.Implements(textType):
		out.kind, out.text = stringShape, t
		return out
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.object(t, s, out)
	case reflect.Map:
		out.kind, out.elem = mapShape, c.shape(t.Elem(), additional(s))
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			out.kind = bytesShape
			return out
		}
		out.kind = arrayShape
		var items *huma.Schema
		if s != nil {
			items = s.Items
		}
		out.elem = c.shape(t.Elem(), items)
	case reflect.String:
		out.kind = stringShape
	case reflect.Bool:
		out.kind = boolShape
	case reflect.Float32, reflect.Float64:
		out.kind = numberShape
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.kind, out.bits = integerShape, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out.kind, out.bits, out.unsigned = integerShape, t.Bits(), true
	default:
		panic("httpapi: a body cannot hold " + t.String())
	}
	return out
}

func additional(s *huma.Schema) *huma.Schema {
	if s == nil {
		return nil
	}
	out, _ := s.AdditionalProperties.(*huma.Schema)
	return out
}

// object compiles a struct. Two fields of one type share their shapes.
func (c *shaper) object(t reflect.Type, s *huma.Schema, out *shape) *shape {
	out.kind = objectShape
	if done, ok := c.structs[t]; ok {
		nullable, schema := out.nullable, out.schema
		if done.index == nil { // still being compiled: a recursive type
			out.of = done
			return out
		}
		*out = *done
		out.nullable, out.schema = nullable, schema
		return out
	}
	if s == nil {
		s = c.registry.Schema(t, false, t.Name())
	}
	c.structs[t] = out
	out.open = s.AdditionalProperties == true
	c.fields(t, nil, s, out)
	out.index = make(map[string]int, len(out.fields))
	for i, f := range out.fields {
		out.index[f.name] = i
	}
	return out
}

func (c *shaper) fields(t reflect.Type, path []int, s *huma.Schema, out *shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(slices.Clone(path), i)
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			c.fields(f.Type, at, s, out)
		case f.Anonymous && name == "":
			panic("httpapi: " + t.String() + " embeds what is no struct")
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			if slices.ContainsFunc(out.fields, func(o shapeField) bool { return o.name == name }) {
				panic("httpapi: " + t.String() + " has the field " + name + " twice")
			}
			prop := s.Properties[name]
			if f.Type.Kind() == reflect.Pointer && prop != nil {
				documentNull(prop)
			}
			constrain(f, prop)
			field := shapeField{name: name, path: at, shape: c.shape(f.Type, prop), required: slices.Contains(s.Required, name)}
			field.shape.secret = f.Tag.Get("secret") == "true" || f.Tag.Get("format") == "password"
			if def, ok := f.Tag.Lookup("default"); ok {
				field.def, field.required = defaultOf(f.Type, def), false
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
			out.fields = append(out.fields, field)
		}
	}
}

// documentNull documents that a pointer field accepts null.
func documentNull(s *huma.Schema) {
	switch {
	case s.Ref != "":
		s.AnyOf = []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}
		s.Ref = ""
	case s.AnyOf == nil && s.Type != "":
		s.Nullable = true
	}
}

// defaultOf parses a default tag: a string verbatim, anything else as JSON.
func defaultOf(t reflect.Type, tag string) reflect.Value {
	v := reflect.New(t)
	base := t
	for base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	data := []byte(tag)
	if base.Kind() == reflect.String || reflect.PointerTo(base).Implements(textType) {
		data, _ = json.Marshal(tag)
	}
	if err := decodeInto(data, v.Interface()); err != nil {
		panic("httpapi: default " + tag + " of " + t.String() + ": " + err.Error())
	}
	return v.Elem()
}
