package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// binaryVersion is the first byte of an encoded item.
const binaryVersion = 1

// smallInt marks a Number stored as a varint instead of its digits.
const smallInt byte = 0x80 | byte(Number)

var errTruncated = errors.New("table: encoded item is damaged")

// AppendBinary appends the compact encoding of an item to b, without the
// attributes named by omit.
func AppendBinary(b []byte, item Item, omit ...string) []byte {
	b = append(b, binaryVersion)
	n := len(item)
	for _, name := range omit {
		if _, ok := item[name]; ok {
			n--
		}
	}
	b = binary.AppendUvarint(b, uint64(n))
	for name, v := range item {
		if !slices.Contains(omit, name) {
			b = appendValue(appendText(b, name), v)
		}
	}
	return b
}

// EncodeBinary returns the compact encoding of an item.
func EncodeBinary(item Item) []byte { return AppendBinary(nil, item) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendValue(b []byte, v Value) []byte {
	if v.kind == Number && isSmallInt(v.str) {
		n, _ := strconv.ParseInt(v.str, 10, 64)
		return binary.AppendVarint(append(b, smallInt), n)
	}
	b = append(b, byte(v.kind))
	switch v.kind {
	case String, Number, Binary:
		b = appendText(b, v.str)
	case Bool:
		truth := byte(0)
		if v.bool {
			truth = 1
		}
		b = append(b, truth)
	case ListKind:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for _, m := range v.List() {
			b = appendValue(b, m)
		}
	case MapKind:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for name, m := range v.Map() {
			b = appendValue(appendText(b, name), m)
		}
	case StringSet, NumberSet:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for _, m := range v.Members() {
			b = appendText(b, m)
		}
	}
	return b
}

// DecodeBinary decodes an item, with capacity for spare more attributes. The
// item's strings share data. It fails if data is damaged.
func DecodeBinary(data string, spare int) (Item, error) {
	if data == "" || data[0] != binaryVersion {
		return nil, fmt.Errorf("%w: unknown version", errTruncated)
	}
	d := decoder{rest: data[1:]}
	n := d.count(2)
	item := make(Item, n+spare)
	for range n {
		name := d.text()
		item[name] = d.value(0)
	}
	if d.bad || d.rest != "" {
		return nil, errTruncated
	}
	return item, nil
}

// decoder reads what appendValue wrote. After an error it returns zero values.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) fail() { d.bad, d.rest = true, "" }

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.fail()
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		x |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return x
		}
	}
	d.fail()
	return 0
}

// count reads a number of members, each of at least size bytes, so that damaged
// data cannot request more memory than its own length.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count(1)
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) value(depth int) Value {
	kind := d.byte()
	if kind == smallInt {
		u := d.uvarint()
		return Value{kind: Number, str: strconv.FormatInt(int64(u>>1)^-int64(u&1), 10)}
	}
	v := Value{kind: Kind(kind)}
	switch v.kind {
	case String, Number, Binary:
		v.str = d.text()
	case Bool:
		v.bool = d.byte() == 1
	case Null:
	case ListKind, MapKind:
		if depth > MaxDepth {
			d.fail()
			return Value{}
		}
		return d.members(v.kind, depth+1)
	case StringSet, NumberSet:
		set := make([]string, d.count(1))
		for i := range set {
			set[i] = d.text()
		}
		return newSet(v.kind, set)
	default:
		d.fail()
	}
	return v
}

func (d *decoder) members(kind Kind, depth int) Value {
	if kind == ListKind {
		list := make([]Value, d.count(1))
		for i := range list {
			list[i] = d.value(depth)
		}
		return List(list...)
	}
	n := d.count(2)
	m := make(map[string]Value, n)
	for range n {
		name := d.text()
		m[name] = d.value(depth)
	}
	return Map(m)
}
