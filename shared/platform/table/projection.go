package table

import (
	"fmt"
	"slices"
	"strings"
)

// Only limits a Get or BatchGet to the given attributes and the key; without
// names it returns the whole item. The read costs the units of the whole item.
func Only(attributes ...string) ReadOption {
	return func(o *ReadOptions) { o.Only = attributes }
}

// CheckOnly rejects a projection that DynamoDB does not accept: an empty or
// duplicate name, a key attribute (which is always returned), or more names
// than an expression holds. Errors are ErrLimit or ErrInvalid.
func CheckOnly(attributes []string) error {
	for i, name := range attributes {
		switch {
		case name == "" || name == "pk" || name == "sk":
			return fmt.Errorf("%w: projection on attribute %q", ErrInvalid, name)
		case slices.Contains(attributes[:i], name):
			return fmt.Errorf("%w: projection on attribute %s twice", ErrInvalid, name)
		}
	}
	if text := (len(attributes) + 2) * (nameText + len(", ")); len(attributes) > 0 && text > MaxExpressionBytes {
		return fmt.Errorf("%w: projection on %d attributes, about %d bytes of text, at most %d", ErrLimit, len(attributes), text, MaxExpressionBytes)
	}
	return nil
}

// Project returns the item with only the given attributes and its key; without
// names it returns the item itself.
func (i Item) Project(attributes []string) Item {
	if len(attributes) == 0 || i == nil {
		return i
	}
	out := make(Item, len(attributes)+2)
	for _, name := range append([]string{"pk", "sk"}, attributes...) {
		if v, ok := i[name]; ok {
			out[name] = v
		}
	}
	return out
}

// DecodeBinaryOnly is [DecodeBinary] limited to the given attributes. The
// item's strings do not share data, so that skipped attributes take no memory.
// left is the size of the skipped attributes, as [Item.Size] counts it.
func DecodeBinaryOnly(data string, attributes []string, spare int) (item Item, left int, err error) {
	if data == "" || data[0] != binaryVersion {
		return nil, 0, fmt.Errorf("%w: unknown version", errTruncated)
	}
	d := decoder{rest: data[1:]}
	var kept strings.Builder
	n := 0
	for range d.count(2) {
		begin := d.rest
		name := d.text()
		size := len(name) + d.skip(0)
		if !slices.Contains(attributes, name) {
			left += size
			continue
		}
		kept.WriteString(begin[:len(begin)-len(d.rest)])
		n++
	}
	if d.bad || d.rest != "" {
		return nil, 0, errTruncated
	}
	d.rest = kept.String()
	item = make(Item, n+spare)
	for range n {
		name := d.text()
		item[name] = d.value(0)
	}
	if d.bad {
		return nil, 0, errTruncated
	}
	return item, left, nil
}

// skip skips a value and returns its size, as [Value.Size] counts it.
func (d *decoder) skip(depth int) int {
	kind := d.byte()
	if kind == smallInt {
		u := d.uvarint()
		return intSize(int64(u>>1) ^ -int64(u&1))
	}
	size := 0
	switch Kind(kind) {
	case String, Binary:
		return len(d.text())
	case Number:
		return numberSize(d.text())
	case Bool:
		d.byte()
		return 1
	case Null:
		return 1
	case ListKind, MapKind:
		if depth > MaxDepth {
			d.fail()
			return 0
		}
		return d.skipMembers(Kind(kind), depth+1)
	case StringSet:
		for range d.count(1) {
			size += len(d.text())
		}
	case NumberSet:
		for range d.count(1) {
			size += numberSize(d.text())
		}
	default:
		d.fail()
	}
	return size
}

func (d *decoder) skipMembers(kind Kind, depth int) int {
	size := 3
	if kind == ListKind {
		for range d.count(1) {
			size += 1 + d.skip(depth)
		}
		return size
	}
	for range d.count(2) {
		size += 1 + len(d.text())
		size += d.skip(depth)
	}
	return size
}

// intSize is numberSize for integers of up to 18 digits.
func intSize(n int64) int {
	size := 1
	if n < 0 {
		size, n = size+1, -n
	}
	for n != 0 && n%10 == 0 {
		n /= 10
	}
	digits := 0
	for ; n > 0; n /= 10 {
		digits++
	}
	return size + (digits+1)/2
}
