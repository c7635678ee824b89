package table

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"millrace/shared/platform/clock"
)

func decodeTime(v Value, rv reflect.Value) error {
	n, err := strconv.ParseInt(v.str, 10, 64)
	if v.kind != Number || err != nil {
		return mismatch(v, rv)
	}
	rv.Set(reflect.ValueOf(clock.Millis(n).Time()))
	return nil
}

// Raw JSON is stored as a String, so that a stored item stays readable.
func encodeRaw(rv reflect.Value) (Value, error) {
	if rv.IsNil() {
		return Value{kind: Null}, nil
	}
	return Value{kind: String, str: string(rv.Bytes())}, nil
}

func decodeRaw(v Value, rv reflect.Value) error {
	if v.kind != String {
		return mismatch(v, rv)
	}
	rv.Set(reflect.ValueOf(json.RawMessage(v.str)))
	return nil
}

func encodeText(rv reflect.Value) (Value, error) {
	text, err := rv.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return Value{}, fmt.Errorf("%w: %s: %w", ErrInvalid, rv.Type(), err)
	}
	return Value{kind: String, str: string(text)}, nil
}

func decodeText(v Value, rv reflect.Value) error {
	if v.kind != String {
		return mismatch(v, rv)
	}
	if err := rv.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(v.str)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, rv.Type(), err)
	}
	return nil
}

func (c *codec) buildSlice() {
	if c.typ.Elem().Kind() == reflect.Uint8 {
		c.enc = func(rv reflect.Value) (Value, error) {
			return Value{kind: Binary, str: string(rv.Bytes())}, nil
		}
		c.dec = func(v Value, rv reflect.Value) error {
			if v.kind != Binary {
				return mismatch(v, rv)
			}
			rv.SetBytes([]byte(v.str))
			return nil
		}
		return
	}
	elem := codecOf(c.typ.Elem())
	c.enc = func(rv reflect.Value) (Value, error) {
		list := make([]Value, rv.Len())
		for i := range list {
			var err error
			if list[i], err = elem.encode(rv.Index(i)); err != nil {
				return Value{}, err
			}
		}
		return List(list...), nil
	}
	c.dec = func(v Value, rv reflect.Value) error {
		switch v.kind {
		case ListKind:
			return decodeList(elem, v.List(), rv)
		case StringSet, NumberSet:
			return decodeSet(v, rv)
		}
		return mismatch(v, rv)
	}
}

func decodeList(elem *codec, list []Value, rv reflect.Value) error {
	out := reflect.MakeSlice(rv.Type(), len(list), len(list))
	for i, v := range list {
		if err := elem.decode(v, out.Index(i)); err != nil {
			return err
		}
	}
	rv.Set(out)
	return nil
}

// decodeSet decodes a set into a slice of its members, in order.
func decodeSet(v Value, rv reflect.Value) error {
	kind := String
	if v.kind == NumberSet {
		kind = Number
	}
	list := make([]Value, v.Len())
	for i, m := range v.Members() {
		list[i] = Value{kind: kind, str: m}
	}
	return decodeList(codecOf(rv.Type().Elem()), list, rv)
}

// setCodec is the codec of a field with the set option.
func setCodec(t reflect.Type) (*codec, bool) {
	c := &codec{typ: t}
	c.once.Do(func() {}) // it is built below
	c.dec = func(v Value, rv reflect.Value) error {
		if v.kind != StringSet && v.kind != NumberSet {
			return mismatch(v, rv)
		}
		return decodeSet(v, rv)
	}
	if t.Kind() != reflect.Slice {
		return c, false
	}
	kind := NumberSet
	switch k := t.Elem().Kind(); {
	case k == reflect.String:
		kind = StringSet
	case k < reflect.Int || k > reflect.Uint64:
		return c, false
	}
	elem := codecOf(t.Elem())
	c.enc = func(rv reflect.Value) (Value, error) {
		set := make([]string, rv.Len())
		for i := range set {
			v, err := elem.encode(rv.Index(i))
			if err != nil {
				return Value{}, err
			}
			set[i] = v.str
		}
		slices.SortFunc(set, compareMembers(kind))
		return newSet(kind, slices.Compact(set)), nil
	}
	return c, true
}

func (c *codec) buildPointer() {
	elem := codecOf(c.typ.Elem())
	c.enc = func(rv reflect.Value) (Value, error) {
		if rv.IsNil() {
			return Value{kind: Null}, nil
		}
		return elem.encode(rv.Elem())
	}
	c.dec = func(v Value, rv reflect.Value) error {
		p := reflect.New(elem.typ)
		if err := elem.decode(v, p.Elem()); err != nil {
			return err
		}
		rv.Set(p)
		return nil
	}
}

func (c *codec) buildStruct() {
	c.enc = func(rv reflect.Value) (Value, error) {
		m, err := c.fields().encode(rv)
		if err != nil {
			return Value{}, err
		}
		return Map(m), nil
	}
	c.dec = func(v Value, rv reflect.Value) error {
		if v.kind != MapKind {
			return mismatch(v, rv)
		}
		return c.fields().decode(v.Map(), rv)
	}
}

func (c *codec) buildMap() {
	elem := codecOf(c.typ.Elem())
	if c.typ.Key().Kind() != reflect.String {
		c.enc = func(rv reflect.Value) (Value, error) {
			return Value{}, fmt.Errorf("%w: the keys of %s are not strings", ErrInvalid, c.typ)
		}
		c.dec = mismatch
		return
	}
	c.enc = func(rv reflect.Value) (Value, error) {
		m := make(map[string]Value, rv.Len())
		for k, x := range rv.Seq2() {
			v, err := elem.encode(x)
			if err != nil {
				return Value{}, fmt.Errorf("%s: %w", k.String(), err)
			}
			m[k.String()] = v
		}
		return Map(m), nil
	}
	c.dec = func(v Value, rv reflect.Value) error {
		if v.kind != MapKind {
			return mismatch(v, rv)
		}
		out := reflect.MakeMapWithSize(c.typ, v.Len())
		for name, x := range v.Map() {
			e := reflect.New(elem.typ).Elem()
			if err := elem.decode(x, e); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out.SetMapIndex(reflect.ValueOf(name).Convert(c.typ.Key()), e)
		}
		rv.Set(out)
		return nil
	}
}

func encodeAny(rv reflect.Value) (Value, error) {
	if rv.IsNil() {
		return Value{kind: Null}, nil
	}
	inner := rv.Elem()
	return codecOf(inner.Type()).encode(inner)
}

func decodeAny(v Value, rv reflect.Value) error {
	x := v.Any()
	if x == nil {
		rv.SetZero()
		return nil
	}
	if !reflect.TypeOf(x).AssignableTo(rv.Type()) {
		return mismatch(v, rv)
	}
	rv.Set(reflect.ValueOf(x))
	return nil
}

// Any returns the value as a plain Go value: string, int64 or float64, []byte,
// bool, nil, []any, map[string]any, or []string for sets.
func (v Value) Any() any {
	switch v.kind {
	case String:
		return v.str
	case Number:
		if n, err := strconv.ParseInt(v.str, 10, 64); err == nil {
			return n
		}
		return v.Float()
	case Binary:
		return v.Bytes()
	case Bool:
		return v.bool
	case ListKind:
		out := make([]any, v.Len())
		for i, m := range v.List() {
			out[i] = m.Any()
		}
		return out
	case MapKind:
		out := make(map[string]any, v.Len())
		for name, m := range v.Map() {
			out[name] = m.Any()
		}
		return out
	case StringSet, NumberSet:
		return slices.Clone(v.Members())
	}
	return nil
}
