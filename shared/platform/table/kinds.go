package table

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// codec encodes and decodes one Go type. It is built on first use, which allows
// recursive types.
type codec struct {
	typ reflect.Type

	once sync.Once
	enc  func(reflect.Value) (Value, error)
	dec  func(Value, reflect.Value) error

	fieldsOnce sync.Once
	fieldList  *fields
}

var codecs sync.Map // reflect.Type → *codec

func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	c, _ := codecs.LoadOrStore(t, &codec{typ: t})
	return c.(*codec)
}

func (c *codec) encode(rv reflect.Value) (Value, error) {
	c.once.Do(c.build)
	return c.enc(rv)
}

// decode reads any value but None. A Null becomes the zero value.
func (c *codec) decode(v Value, rv reflect.Value) error {
	if v.kind == Null && c.typ != valueType {
		rv.SetZero()
		return nil
	}
	c.once.Do(c.build)
	return c.dec(v, rv)
}

// fields returns how the struct type is read and written as an item.
func (c *codec) fields() *fields {
	c.fieldsOnce.Do(func() { c.fieldList = fieldsOf(c.typ) })
	return c.fieldList
}

var (
	valueType = reflect.TypeFor[Value]()
	timeType  = reflect.TypeFor[time.Time]()
	rawType   = reflect.TypeFor[json.RawMessage]()
	marshaler = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshal = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (c *codec) build() {
	t := c.typ
	switch {
	case t == valueType:
		c.enc = func(rv reflect.Value) (Value, error) { return rv.Interface().(Value), nil }
		c.dec = func(v Value, rv reflect.Value) error { rv.Set(reflect.ValueOf(v)); return nil }
		return
	case t == timeType:
		c.enc = func(rv reflect.Value) (Value, error) { return millis(rv.Interface().(time.Time)), nil }
		c.dec = decodeTime
		return
	case t == rawType:
		c.enc, c.dec = encodeRaw, decodeRaw
		return
	case (t.Kind() == reflect.Struct || t.Kind() == reflect.Array) &&
		t.Implements(marshaler) && reflect.PointerTo(t).Implements(unmarshal):
		c.enc, c.dec = encodeText, decodeText
		return
	}
	switch t.Kind() {
	case reflect.String:
		c.enc = func(rv reflect.Value) (Value, error) { return Value{kind: String, str: rv.String()}, nil }
		c.dec = decodeString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.enc = func(rv reflect.Value) (Value, error) {
			return Value{kind: Number, str: strconv.FormatInt(rv.Int(), 10)}, nil
		}
		c.dec = decodeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.enc = func(rv reflect.Value) (Value, error) {
			return Value{kind: Number, str: strconv.FormatUint(rv.Uint(), 10)}, nil
		}
		c.dec = decodeUint
	case reflect.Float32, reflect.Float64:
		c.enc, c.dec = encodeFloat, decodeFloat
	case reflect.Bool:
		c.enc = func(rv reflect.Value) (Value, error) { return Value{kind: Bool, bool: rv.Bool()}, nil }
		c.dec = decodeBool
	case reflect.Slice:
		c.buildSlice()
	case reflect.Map:
		c.buildMap()
	case reflect.Pointer:
		c.buildPointer()
	case reflect.Struct:
		c.buildStruct()
	case reflect.Interface:
		c.enc, c.dec = encodeAny, decodeAny
	default:
		c.enc = func(reflect.Value) (Value, error) {
			return Value{}, fmt.Errorf("%w: no value can be made of %s", ErrInvalid, t)
		}
		c.dec = func(Value, reflect.Value) error {
			return fmt.Errorf("%w: no value can be read into %s", ErrInvalid, t)
		}
	}
}

func mismatch(v Value, rv reflect.Value) error {
	return fmt.Errorf("%w: %s does not fit %s", ErrInvalid, v.kind, rv.Type())
}

func decodeString(v Value, rv reflect.Value) error {
	if v.kind != String {
		return mismatch(v, rv)
	}
	rv.SetString(v.str)
	return nil
}

func decodeInt(v Value, rv reflect.Value) error {
	n, err := strconv.ParseInt(v.str, 10, 64)
	if v.kind != Number || err != nil || rv.OverflowInt(n) {
		return mismatch(v, rv)
	}
	rv.SetInt(n)
	return nil
}

func decodeUint(v Value, rv reflect.Value) error {
	n, err := strconv.ParseUint(v.str, 10, 64)
	if v.kind != Number || err != nil || rv.OverflowUint(n) {
		return mismatch(v, rv)
	}
	rv.SetUint(n)
	return nil
}

// encodeFloat never fails, because the float may be a user's: NaN and too large
// values are kept for [CheckItem] and [CheckCond] to reject, and values too
// small for DynamoDB become zero.
func encodeFloat(rv reflect.Value) (Value, error) {
	f := rv.Float()
	if math.Abs(f) < 1e-129 {
		f = 0
	}
	text := strconv.FormatFloat(f, 'g', -1, rv.Type().Bits())
	v, err := Decimal(text)
	if err != nil { // NaN or infinite: rejected when it is stored
		v = Value{kind: Number, str: text}
	}
	return v, nil
}

func decodeFloat(v Value, rv reflect.Value) error {
	f, err := strconv.ParseFloat(v.str, 64)
	if v.kind != Number || err != nil || rv.OverflowFloat(f) {
		return mismatch(v, rv)
	}
	rv.SetFloat(f)
	return nil
}

func decodeBool(v Value, rv reflect.Value) error {
	if v.kind != Bool {
		return mismatch(v, rv)
	}
	rv.SetBool(v.bool)
	return nil
}
