package table

import (
	"fmt"
	"slices"
	"strconv"
)

// Kind is the type of a Value; the kinds are DynamoDB's.
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

// Value is one attribute value.
type Value struct {
	kind Kind
	bool bool
	str  string           // String, Number (canonical decimal), Binary (bytes)
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

// Bool returns the truth of a Bool.
func (v Value) Bool() bool { return v.bool }

// List returns the members of a list.
func (v Value) List() []Value { return v.list }

// Map returns the members of a map.
func (v Value) Map() map[string]Value { return v.m }

// Members returns the members of a set, sorted; numbers as decimals.
func (v Value) Members() []string { return v.set }

// Len returns how many members a set, list or map has.
func (v Value) Len() int { return len(v.list) + len(v.m) + len(v.set) }

// Has reports whether a number set has the member.
func (v Value) Has(n int) bool { return slices.Contains(v.set, strconv.Itoa(n)) }

// List makes a list value.
func List(vs ...Value) Value { return Value{kind: ListKind, list: vs} }

// SetOf makes a set of numbers or strings: sorted, duplicates removed. It
// panics on no members, because a set is never empty.
func SetOf[T ~int | ~int64 | ~string](members ...T) Value {
	if len(members) == 0 {
		panic("table: empty set")
	}
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	out := Value{kind: NumberSet, set: make([]string, len(sorted))}
	for i, m := range sorted {
		switch x := any(m).(type) {
		case string:
			out.kind, out.set[i] = StringSet, x
		default:
			out.set[i] = fmt.Sprint(x)
			if _, err := strconv.ParseInt(out.set[i], 10, 64); err != nil {
				out.kind = StringSet
			}
		}
	}
	return out
}
