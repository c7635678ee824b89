package table

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Kind is the type of a Value. The kinds are DynamoDB's.
type Kind uint8

// The kinds.
const (
	None      Kind = iota // the zero Value: no attribute
	String                // S
	Number                // N: a decimal, kept exactly
	Binary                // B
	Bool                  // BOOL
	Null                  // NULL
	ListKind              // L
	MapKind               // M
	StringSet             // SS, sorted, never empty
	NumberSet             // NS, sorted, never empty
)

// String names the kind.
func (k Kind) String() string {
	names := [...]string{"nothing", "string", "number", "binary", "boolean", "null", "list", "map", "string set", "number set"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Value is one attribute value. Values are immutable; callers must not modify
// what their methods return.
type Value struct {
	kind Kind
	bool bool
	str  string    // String, Number (canonical decimal), Binary (bytes)
	many *compound // lists, maps and sets; nil for the others
}

// compound holds the rarely used fields of Value, to keep Value small.
type compound struct {
	list []Value          // ListKind
	m    map[string]Value // MapKind
	set  []string         // StringSet, NumberSet
}

// Kind returns the value's kind, None for an absent attribute.
func (v Value) Kind() Kind { return v.kind }

// Str returns the string of a String, and the decimal of a Number.
func (v Value) Str() string { return v.str }

// Bytes returns the bytes of a Binary.
func (v Value) Bytes() []byte { return []byte(v.str) }

// Int returns a Number as an integer, 0 if it is not one.
func (v Value) Int() int64 {
	n, _ := strconv.ParseInt(v.str, 10, 64)
	return n
}

// Float returns a Number as a float, 0 if it is not one.
func (v Value) Float() float64 {
	f, _ := strconv.ParseFloat(v.str, 64)
	return f
}

// Bool returns the value of a Bool.
func (v Value) Bool() bool { return v.bool }

// List returns the members of a list.
func (v Value) List() []Value {
	if v.many == nil {
		return nil
	}
	return v.many.list
}

// Map returns the members of a map.
func (v Value) Map() map[string]Value {
	if v.many == nil {
		return nil
	}
	return v.many.m
}

// Members returns the members of a set, sorted; numbers as decimals, in numeric
// order.
func (v Value) Members() []string {
	if v.many == nil {
		return nil
	}
	return v.many.set
}

// Len returns the number of members of a set, list or map.
func (v Value) Len() int {
	if v.many == nil {
		return 0
	}
	return len(v.many.list) + len(v.many.m) + len(v.many.set)
}

// Has reports whether a number set has the member.
func (v Value) Has(n int) bool {
	return v.kind == NumberSet && slices.Contains(v.many.set, strconv.Itoa(n))
}

// Equal reports whether two values are the same in kind and content.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind || v.bool != w.bool || v.str != w.str || v.Len() != w.Len() {
		return false
	}
	switch v.kind {
	case ListKind:
		return slices.EqualFunc(v.List(), w.List(), Value.Equal)
	case MapKind:
		return maps.EqualFunc(v.Map(), w.Map(), Value.Equal)
	case StringSet, NumberSet:
		return slices.Equal(v.Members(), w.Members())
	}
	return true
}

// List returns a list value.
func List(vs ...Value) Value { return Value{kind: ListKind, many: &compound{list: vs}} }

// Map returns a map value.
func Map(m map[string]Value) Value { return Value{kind: MapKind, many: &compound{m: m}} }

// SetOf returns a set of numbers or strings, sorted, without duplicates. It
// panics without members, because a set is never empty.
func SetOf[T ~int | ~int64 | ~string](members ...T) Value {
	if len(members) == 0 {
		panic("table: empty set")
	}
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	// T is a type parameter, so only reflection tells its kind.
	isString := reflect.TypeFor[T]().Kind() == reflect.String
	set := make([]string, len(sorted))
	for i, m := range sorted {
		if rv := reflect.ValueOf(m); isString {
			set[i] = rv.String()
		} else {
			set[i] = strconv.FormatInt(rv.Int(), 10)
		}
	}
	if isString {
		return newSet(StringSet, set)
	}
	return newSet(NumberSet, set)
}

// Strings returns a string set, or the zero Value (no attribute) if there are
// no members.
func Strings(members []string) Value {
	return newSet(StringSet, slices.Compact(slices.Sorted(slices.Values(members))))
}

// Numbers returns a number set of decimals in any form, or the zero Value (no
// attribute) if there are none. It returns ErrInvalid if one is not a decimal.
func Numbers(decimals []string) (Value, error) {
	set := make([]string, len(decimals))
	for i, d := range decimals {
		n, err := Decimal(d)
		if err != nil {
			return Value{}, err
		}
		set[i] = n.str
	}
	slices.SortFunc(set, compareDecimals)
	return newSet(NumberSet, slices.Compact(set)), nil
}

// newSet returns a set value of sorted, distinct members.
func newSet(kind Kind, sorted []string) Value {
	if len(sorted) == 0 {
		return Value{}
	}
	return Value{kind: kind, many: &compound{set: sorted}}
}

// compareMembers returns the order of the members of a set of that kind.
func compareMembers(kind Kind) func(a, b string) int {
	if kind == NumberSet {
		return compareDecimals
	}
	return cmp.Compare[string]
}
