package httpapi

import (
	"go/token"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// namer names schemas. An exported type has its own name, with its package's
// in front when another type was first; an unexported one always has its
// package's, an anonymous one its operation's: two domains may both have a
// createBody. A type with a method SchemaName says its name itself.
type namer struct {
	op    string // being registered
	names map[reflect.Type]string
	taken map[string]reflect.Type
}

func newNamer() *namer {
	return &namer{names: map[reflect.Type]string{}, taken: map[string]reflect.Type{}}
}

// name is huma's hook; it gives one type the same name whenever it is asked.
func (n *namer) name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return huma.DefaultSchemaNamer(t, hint) // not kept: only structs are components
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

// reserve keeps names for schemas that no type has.
func (n *namer) reserve(names ...string) {
	for _, name := range names {
		n.taken[name] = reflect.TypeFor[answered]()
	}
}

// camel turns runs-create into RunsCreate.
func camel(s string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}
