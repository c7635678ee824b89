package table

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"millrace/shared/platform/clock"
)

// V converts a Go value to a Value: strings, integers, floats, booleans and
// types derived from them; []byte to Binary; json.RawMessage and text
// marshalers to String; time.Time to Unix milliseconds, as [clock.Millis]; nil
// to Null; slices to lists; maps and structs with table tags to maps; a Value
// to itself. It panics on a type that no item can hold (a channel, a function,
// a struct field without a tag), which is a programming error.
func V(x any) Value {
	switch x := x.(type) {
	case nil:
		return Value{kind: Null}
	case Value:
		return x
	case string:
		return Value{kind: String, str: x}
	case int:
		return Value{kind: Number, str: strconv.Itoa(x)}
	case int64:
		return Value{kind: Number, str: strconv.FormatInt(x, 10)}
	case bool:
		return Value{kind: Bool, bool: x}
	case []byte:
		return Value{kind: Binary, str: string(x)}
	case time.Time:
		return millis(x)
	}
	rv := reflect.ValueOf(x)
	v, err := codecOf(rv.Type()).encode(rv)
	if err != nil {
		panic(err)
	}
	return v
}

// Marshal converts a struct, or a pointer to one, to an Item by the table tags
// of its fields: `table:"name,options"`. Options: omitempty omits the zero
// value; set stores a slice of integers or strings as a set, omitted if empty.
// `table:"-"` excludes a field. Fields of embedded structs without a tag are
// promoted. An exported field without a tag is an error, so that no field is
// lost by an oversight. Nil pointers become Null, nil slices and maps empty
// ones. An Item is returned unchanged. Errors are ErrInvalid.
func Marshal(x any) (Item, error) {
	switch x := x.(type) {
	case Item:
		return x, nil
	case map[string]Value:
		return x, nil
	}
	rv := reflect.ValueOf(x)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: no item can be made of %T", ErrInvalid, x)
	}
	return codecOf(rv.Type()).fields().encode(rv)
}

// Unmarshal fills the struct that into points to from an item. Unknown
// attributes are ignored; fields without an attribute, and Nulls, become zero
// values. An attribute of the wrong kind or out of the field's range is
// ErrInvalid.
func Unmarshal(item Item, into any) error {
	if p, ok := into.(*Item); ok {
		*p = item
		return nil
	}
	rv := reflect.ValueOf(into)
	if rv.Kind() != reflect.Pointer || rv.IsNil() || rv.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%w: no item can be read into %T", ErrInvalid, into)
	}
	return codecOf(rv.Elem().Type()).fields().decode(item, rv.Elem())
}

// Attributes returns the names of the attributes of struct type T, without
// those of the key. It panics if T cannot be stored as an item, which is a
// programming error.
func Attributes[T any]() []string {
	fs := codecOf(reflect.TypeFor[T]()).fields()
	if fs.err != nil {
		panic(fs.err)
	}
	var names []string
	for i := range fs.list {
		if name := fs.list[i].name; name != "pk" && name != "sk" {
			names = append(names, name)
		}
	}
	return names
}

// keyOf returns the key of the item that a Put stores, or the zero Key if it
// has none.
func keyOf(x any) Key {
	switch x := x.(type) {
	case Item:
		return x.Key()
	case map[string]Value:
		return Item(x).Key()
	}
	rv := reflect.ValueOf(x)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return Key{}
	}
	return codecOf(rv.Type()).fields().key(rv)
}

func millis(t time.Time) Value {
	return Value{kind: Number, str: strconv.FormatInt(int64(clock.ToMillis(t)), 10)}
}
