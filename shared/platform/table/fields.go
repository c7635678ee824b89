package table

import (
	"fmt"
	"reflect"
	"strings"
)

// fields describes how a struct type is read and written.
type fields struct {
	list   []field
	pk, sk []int // index paths of the key fields, nil if there are none
	err    error // set if the type cannot be stored
}

// field is one attribute of a struct type.
type field struct {
	name      string
	index     []int // path, with more than one step for a promoted field
	omitEmpty bool
	codec     *codec
}

func fieldsOf(t reflect.Type) *fields {
	fs := &fields{}
	seen := map[string]bool{}
	fs.walk(t, nil, seen)
	return fs
}

func (fs *fields) walk(t reflect.Type, path []int, seen map[string]bool) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("table")
		index := append(append([]int(nil), path...), i)
		switch {
		case tag == "-":
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct:
			fs.walk(sf.Type, index, seen)
		case !sf.IsExported():
		case !tagged:
			fs.fail("field %s of %s has no table tag", sf.Name, t)
		default:
			fs.add(t, sf, tag, index, seen)
		}
	}
}

func (fs *fields) add(t reflect.Type, sf reflect.StructField, tag string, index []int, seen map[string]bool) {
	name, options, _ := strings.Cut(tag, ",")
	if name == "" || seen[name] {
		fs.fail("field %s of %s: attribute name %q is empty or used twice", sf.Name, t, name)
		return
	}
	seen[name] = true
	f := field{name: name, index: index, codec: codecOf(sf.Type)}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "omitempty":
			f.omitEmpty = true
		case "set":
			codec, ok := setCodec(sf.Type)
			if !ok {
				fs.fail("field %s of %s: a set is a slice of integers or strings", sf.Name, t)
			}
			f.codec, f.omitEmpty = codec, true
		default:
			fs.fail("field %s of %s: unknown option %q", sf.Name, t, option)
		}
	}
	switch {
	case name == "pk" && sf.Type.Kind() == reflect.String:
		fs.pk = index
	case name == "sk" && sf.Type.Kind() == reflect.String:
		fs.sk = index
	}
	fs.list = append(fs.list, f)
}

func (fs *fields) fail(format string, args ...any) {
	if fs.err == nil {
		fs.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

func (fs *fields) encode(rv reflect.Value) (Item, error) {
	if fs.err != nil {
		return nil, fs.err
	}
	item := make(Item, len(fs.list))
	for i := range fs.list {
		f := &fs.list[i]
		fv := at(rv, f.index)
		if f.omitEmpty && empty(fv) {
			continue
		}
		v, err := f.codec.encode(fv)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		item[f.name] = v
	}
	return item, nil
}

func (fs *fields) decode(item Item, rv reflect.Value) error {
	if fs.err != nil {
		return fs.err
	}
	for i := range fs.list {
		f := &fs.list[i]
		fv := at(rv, f.index)
		v, ok := item[f.name]
		if !ok || v.kind == None || v.kind == Null {
			fv.SetZero()
			continue
		}
		if err := f.codec.decode(v, fv); err != nil {
			return fmt.Errorf("attribute %s: %w", f.name, err)
		}
	}
	return nil
}

func (fs *fields) key(rv reflect.Value) (k Key) {
	if fs.pk != nil {
		k.PK = at(rv, fs.pk).String()
	}
	if fs.sk != nil {
		k.SK = at(rv, fs.sk).String()
	}
	return k
}

func at(rv reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		rv = rv.Field(i)
	}
	return rv
}

// empty reports a zero value, or a slice or map without members.
func empty(rv reflect.Value) bool {
	switch rv.Kind() {
	case reflect.Slice, reflect.Map:
		return rv.Len() == 0
	}
	return rv.IsZero()
}
