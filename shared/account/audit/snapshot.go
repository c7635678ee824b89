package audit

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
)

const (
	// MaxSnapshot is the largest snapshot in bytes of JSON. Only size and digest
	// of a larger one are stored, so that an entry always fits an item.
	MaxSnapshot = 32 << 10

	maxName  = 256  // bytes of names, addresses and the like
	maxID    = 1024 // bytes of a resource id, which is part of an index key
	maxDepth = 64   // of a snapshot; deeper ones are cyclic or unreadable
)

// snapshot encodes a value as a JSON object without its secrets, or as "" if it
// is nil.
func snapshot(v any) string {
	plain := strip(reflect.ValueOf(v), 0)
	if plain == nil {
		return ""
	}
	data, err := json.Marshal(plain)
	switch {
	case err != nil:
		// An audit entry must not make its change fail.
		return `{"unrepresentable":true}`
	case string(data) == "null":
		return ""
	case data[0] != '{':
		data, _ = json.Marshal(map[string]any{"value": json.RawMessage(data)})
	}
	if len(data) <= MaxSnapshot {
		return string(data)
	}
	sum := sha256.Sum256(data)
	data, _ = json.Marshal(map[string]any{"truncated": true, "size": len(data), "sha256": hex.EncodeToString(sum[:])})
	return string(data)
}

// strip converts a value to maps, slices and scalars, without secret fields and
// key attributes.
func strip(v reflect.Value, depth int) any {
	if depth > maxDepth || !v.IsValid() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if v.Kind() == reflect.Pointer && marshals(v) {
			return v.Interface()
		}
		return strip(v.Elem(), depth+1)
	}
	if marshals(v) {
		return v.Interface()
	}
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		fields(v, depth, out)
		return out
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		out := make(map[string]any, v.Len())
		for iter := v.MapRange(); iter.Next(); {
			if k := iter.Key(); k.Kind() == reflect.String {
				out[k.String()] = strip(iter.Value(), depth+1)
			}
		}
		return out
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && (v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8) {
			return nilOr(v)
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = strip(v.Index(i), depth+1)
		}
		return out
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return nil
	}
	return v.Interface()
}

func nilOr(v reflect.Value) any {
	if v.IsNil() {
		return nil
	}
	return v.Interface()
}

// marshals reports whether a type has its own JSON encoding.
func marshals(v reflect.Value) bool {
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

func fields(v reflect.Value, depth int, out map[string]any) {
	for field, value := range v.Fields() {
		if !field.IsExported() && !field.Anonymous || field.Tag.Get("secret") == "true" {
			continue
		}
		name, empty := nameOf(field)
		switch {
		case name == "-":
		case field.Anonymous && name == "":
			if inner := reflect.Indirect(value); inner.Kind() == reflect.Struct {
				fields(inner, depth+1, out)
			}
		case !field.IsExported() || empty && value.IsZero():
		case name == "":
			out[field.Name] = strip(value, depth+1)
		default:
			out[name] = strip(value, depth+1)
		}
	}
}

// nameOf returns the JSON name of a field, "" for its Go name and "-" for none,
// and whether it is omitted when empty.
func nameOf(field reflect.StructField) (name string, omitEmpty bool) {
	tag, ok := field.Tag.Lookup("json")
	if !ok {
		tag = field.Tag.Get("table")
		if isKeyAttribute(tag) {
			return "-", false
		}
	}
	name, options, _ := strings.Cut(tag, ",")
	return name, strings.Contains(options, "omit")
}

// isKeyAttribute reports whether a table tag names a key, index or expiry
// attribute.
func isKeyAttribute(tag string) bool {
	name, _, _ := strings.Cut(tag, ",")
	return name == "pk" || name == "sk" || name == "ttl" || strings.HasSuffix(name, "_pk") || strings.HasSuffix(name, "_sk")
}

// cut shortens s to at most n bytes. It replaces the rest by a digest, so that
// long names with a common prefix stay distinct.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	digest := "~" + hex.EncodeToString(sum[:8])
	return strings.ToValidUTF8(s[:n-len(digest)], "") + digest
}
