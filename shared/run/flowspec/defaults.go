package flowspec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"millrace/shared/platform/budget"
)

// Limits of filling in defaults.
const (
	maxDefaults     = 256 << 10 // bytes that the defaults of one object may add
	maxFilled       = 1 << 20   // bytes of the parameters with all defaults
	maxDefaultDepth = 32        // of objects below objects
	defaultBytes    = 100       // of a value in memory besides its text
)

// applyDefaults sets absent properties of an object, and of objects in its
// properties, and returns which properties it changed. It follows references
// within the document. The error is that of b.
func applyDefaults(b *budget.Budget, root, s, object map[string]any, depth int) (map[string]bool, error) {
	changed := map[string]bool{}
	s = resolve(root, s)
	properties, _ := s["properties"].(map[string]any)
	if depth > maxDefaultDepth {
		return changed, nil
	}
	if err := b.Spend(1 + 4*len(properties)); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[key].(map[string]any)
		if property == nil {
			continue
		}
		if _, has := object[key]; !has {
			value, ok := defaultOf(root, property)
			if !ok {
				continue
			}
			if err := b.Take(len(key) + defaultBytes*weight(value) + jsonSize(value)); err != nil {
				return nil, err
			}
			if err := b.Spend(weight(value)); err != nil {
				return nil, err
			}
			object[key] = clone(value)
			changed[key] = true
		}
		if inner, ok := object[key].(map[string]any); ok {
			below, err := applyDefaults(b, root, property, inner, depth+1)
			if err != nil {
				return nil, err
			}
			for _, c := range below {
				changed[key] = changed[key] || c
			}
		}
	}
	return changed, nil
}

// defaultOf returns a property's own default, or that of the referenced schema.
func defaultOf(root, property map[string]any) (any, bool) {
	if value, ok := property["default"]; ok {
		return value, true
	}
	value, ok := resolve(root, property)["default"]
	return value, ok
}

// expansion detects objects whose nested defaults would grow without bound.
type expansion struct {
	root map[string]any
	size map[subschema]int
	// worst is the path of the first property whose defaults are too large.
	worst []any
}

// subschema is a subschema at a depth.
type subschema struct {
	schema uintptr
	depth  int
}

// checkDefaults returns the path of a property whose defaults would add more
// than [maxDefaults] bytes to an empty object, or nil. The work is at most the
// number of properties times [maxDefaultDepth].
func checkDefaults(root map[string]any) []any {
	e := &expansion{root: root, size: map[subschema]int{}}
	e.added(root, nil, 0)
	return e.worst
}

// added returns how many bytes of JSON the defaults add to an empty object.
func (e *expansion) added(s map[string]any, path []any, depth int) int {
	s = resolve(e.root, s)
	at := subschema{reflect.ValueOf(s).Pointer(), depth}
	if n, ok := e.size[at]; ok || depth > maxDefaultDepth {
		return n
	}
	total := 0
	properties, _ := s["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[key].(map[string]any)
		if property == nil {
			continue
		}
		here := append(path[:len(path):len(path)], "properties", key)
		below := e.added(property, here, depth+1) // also for a given object
		value, ok := defaultOf(e.root, property)
		if !ok {
			continue
		}
		total += len(key) + jsonSize(value)
		if _, object := value.(map[string]any); object {
			total += below
		}
		if total > maxDefaults {
			if e.worst == nil {
				e.worst = here[:2] // below it the path may go through references
			}
			total = maxDefaults + 1
		}
	}
	e.size[at] = total
	return total
}

// jsonSize returns the approximate length of a value as JSON.
func jsonSize(v any) int {
	switch v := v.(type) {
	case string:
		return 3 + len(v)
	case json.Number:
		return 1 + len(v)
	case []any:
		n := 3
		for _, e := range v {
			n += jsonSize(e)
		}
		return n
	case map[string]any:
		n := 3
		for k, e := range v {
			n += 4 + len(k) + jsonSize(e)
		}
		return n
	}
	return 5
}

// clone copies a default, so that filling in defaults below it does not modify
// the schema.
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
			if strings.Contains(token, "~") {
				token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
			}
			v = m[token]
		}
		next, ok := v.(map[string]any)
		if !ok {
			return s
		}
		s = next
	}
	return s
}
