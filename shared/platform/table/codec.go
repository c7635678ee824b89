package table

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"millrace/shared/platform/clock"
)

// V makes a Value of a Go value: strings, integers, floats and booleans and
// types made of them; []byte as Binary; json.RawMessage and whatever marshals to
// text as String; time.Time as Unix milliseconds, as [clock.Millis]; nil as Null; slices
// as lists, maps and structs with table tags as maps; a Value as itself. It
// panics on a type that no item can hold (a channel, a function, a struct field
// without a tag), which is a mistake in the program.
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

// Marshal makes an Item of a struct (or a pointer to one) by its fields' table
// tags: `table:"name,options"`. Options: omitempty leaves the zero value out;
// set makes a set of a slice of integers or strings, left out if empty.
// `table:"-"` keeps a field out; embedded structs without a tag lend their
// fields; an exported field without a tag is an error, so that nothing is lost
// by an oversight. Nil pointers are Null, nil slices and maps empty ones. An
// Item is returned as it is. Errors are ErrInvalid.
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

// Unmarshal fills a struct from an item; into is a pointer to it. Attributes
// the struct does not know are ignored, fields the item does not have are set to
// zero values, a Null is a zero value. An attribute of another kind than its
// field, or out of its range, is ErrInvalid.
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

// Attributes returns the names of the attributes that the fields of struct type
// T are read from and written to, the key's left out. It panics if T is unfit for
// items, which is a mistake in the program.
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

// keyOf returns the key of what a Put stores, the zero Key if it has none.
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
