package httpapi

import (
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// namer names schemas. An exported type has its own name, prefixed with its
// package if another type took the name first; an unexported type always has
// the prefix, and an anonymous one that of its operation. Two domains may
// therefore both have a createBody. A type with a method SchemaName names
// itself.
type namer struct {
	op    string // of the operation being registered
	names map[reflect.Type]string
	taken map[string]reflect.Type
}

func newNamer() *namer {
	return &namer{names: map[reflect.Type]string{}, taken: map[string]reflect.Type{}}
}

// name implements huma's hook. It always returns the same name for a type.
func (n *namer) name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return huma.DefaultSchemaNamer(t, hint) // not stored: only structs are components
	}
	if name, ok := n.names[t]; ok {
		return name
	}
	if named, ok := reflect.Zero(t).Interface().(interface{ SchemaName() string }); ok {
		n.names[t], n.taken[named.SchemaName()] = named.SchemaName(), t
		return named.SchemaName()
	}
	own := huma.DefaultSchemaNamer(t, hint)
	qualified := camel(path.Base(t.PkgPath())) + own
	first := own
	switch {
	case t.Name() == "":
		qualified = camel(n.op) + camel(strings.TrimPrefix(hint, n.op))
		first = qualified
	case !token.IsExported(t.Name()):
		first = qualified
	}
	name := first
	if n.taken[name] != nil {
		name = qualified
	}
	for i := 2; n.taken[name] != nil; i++ {
		name = qualified + strconv.Itoa(i)
	}
	n.names[t], n.taken[name] = name, t
	return name
}

// reserve reserves names for schemas without a type.
func (n *namer) reserve(names ...string) {
	for _, name := range names {
		n.taken[name] = reflect.TypeFor[answered]()
	}
}

// camel converts runs-create to RunsCreate.
func camel(s string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}
