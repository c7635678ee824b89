package tabletest

import (
	"strings"

	"millrace/shared/platform/table"

	"pgregory.net/rapid"
)

// awkward are parts of keys that are prefixes of each other, or that sort close
// to the separators of a key encoding.
var awkward = []string{"a", "a\x00", "a\x00\x00", "a\x00\x01", "a\x01", "a#", "aa", "a\u00ff", "b", "\x00", "\x00\x01",
	"\x01", "\u007f", "é", "éa", "\uffff", "\U0010ffff", "\U0010ffff\U0010ffff", strings.Repeat("k", 90)}

var (
	someNumbers = []string{"0", "-1", "1", "7", "10", "0.5", "-2.25", "9223372036854775807", strings.Repeat("9", 38),
		"-" + strings.Repeat("9", 38), "123456789012345678901234567890.12345678", "1e-20", "-1e125"}
	someTexts = []string{"", "a", "ab", "b", "\x00", "é", "10"}
	someBytes = []string{"", "\x00", "\x00\x01", "\xff", "ab"}
)

// pool draws the operands of one history. It is small, so that operations
// collide.
type pool struct {
	pks, sks, indexPKs, indexSKs []string
	heavy                        bool // items are large, so that pages of a megabyte fill
}

func drawPool(t *rapid.T, prefix string) pool {
	some := func(label string, prefix string, least, most int) []string {
		parts := rapid.SliceOfNDistinct(rapid.SampledFrom(awkward), least, most, rapid.ID[string]).Draw(t, label)
		for i := range parts {
			parts[i] = prefix + parts[i]
		}
		return parts
	}
	p := pool{heavy: rapid.IntRange(0, 19).Draw(t, "heavy") == 19}
	p.pks, p.sks = some("pks", prefix, 1, 3), some("sks", "", 2, 6)
	p.indexPKs, p.indexSKs = some("index pks", prefix, 1, 2), some("index sks", "", 1, 4)
	if p.heavy {
		p.pks = p.pks[:1]
	}
	return p
}

func (p pool) key(t *rapid.T) table.Key {
	return table.Key{PK: rapid.SampledFrom(p.pks).Draw(t, "pk"), SK: rapid.SampledFrom(p.sks).Draw(t, "sk")}
}

func (p pool) keys(t *rapid.T) []table.Key {
	return rapid.SliceOfNDistinct(rapid.Custom(p.key), 1, 8, rapid.ID[table.Key]).Draw(t, "keys")
}

// attributes are the names of items' attributes except the key's. None is "-",
// which the DynamoDB driver assumes no item has.
var attributes = func() []string {
	names := []string{"n", "s", "b", "yes", "null", "l", "m", "ss", "ns", "a-b.c", "ttl"}
	for _, x := range table.Indexes {
		names = append(names, string(x)+"_pk", string(x)+"_sk")
	}
	return names
}()

// value draws a value that fits an attribute.
func (p pool) value(t *rapid.T, attr string) table.Value {
	text := rapid.SampledFrom(someTexts)
	number := rapid.Map(rapid.SampledFrom(someNumbers), decimal)
	switch {
	case strings.HasSuffix(attr, "_pk"):
		return table.V(rapid.SampledFrom(p.indexPKs).Draw(t, attr))
	case strings.HasSuffix(attr, "_sk"):
		return table.V(rapid.SampledFrom(p.indexSKs).Draw(t, attr))
	}
	switch attr {
	case "pk":
		return table.V(rapid.SampledFrom(p.pks).Draw(t, attr))
	case "sk":
		return table.V(rapid.SampledFrom(p.sks).Draw(t, attr))
	case "n", "ttl":
		return number.Draw(t, attr)
	case "b":
		return table.V([]byte(rapid.SampledFrom(someBytes).Draw(t, attr)))
	case "yes":
		return table.V(rapid.Bool().Draw(t, attr))
	case "null":
		return table.V(nil)
	case "l":
		return table.List(table.V(text.Draw(t, "member")), number.Draw(t, "member"))
	case "m":
		return table.Map(map[string]table.Value{"k" + text.Draw(t, "name"): number.Draw(t, "member")})
	case "ss":
		return table.SetOf(rapid.SliceOfN(text, 1, 3).Draw(t, attr)...)
	case "ns":
		set, err := table.Numbers(rapid.SliceOfN(rapid.SampledFrom(someNumbers), 1, 3).Draw(t, attr))
		if err != nil {
			panic(err)
		}
		return set
	}
	return table.V(text.Draw(t, attr))
}

// item draws some attributes. Mostly it sets both of an index, sometimes only
// one.
func (p pool) item(t *rapid.T, key table.Key) table.Item {
	item := keyOnly(key)
	for _, attr := range rapid.SliceOfNDistinct(rapid.SampledFrom(attributes), 0, 5, rapid.ID[string]).Draw(t, "attributes") {
		item[attr] = p.value(t, attr)
	}
	for _, x := range rapid.SliceOfNDistinct(rapid.SampledFrom(table.Indexes), 0, 2, rapid.ID[table.Index]).Draw(t, "indexes") {
		for _, attr := range []string{string(x) + "_pk", string(x) + "_sk"} {
			item[attr] = p.value(t, attr)
		}
	}
	if p.heavy {
		kb := rapid.SampledFrom([]int{0, 100, 250, 390, 390}).Draw(t, "KB")
		item["large"] = table.V(strings.Repeat("x", kb<<10))
	}
	return item
}

// actions draws the actions of an Update. Some do not fit the stored attribute.
func (p pool) actions(t *rapid.T) (do []table.Action) {
	for _, attr := range rapid.SliceOfNDistinct(rapid.SampledFrom(attributes), 0, 4, rapid.ID[string]).Draw(t, "attributes") {
		from := attr
		isIndex := strings.HasSuffix(attr, "_pk") || strings.HasSuffix(attr, "_sk")
		if !isIndex && rapid.IntRange(0, 9).Draw(t, "of another kind") == 9 {
			from = rapid.SampledFrom([]string{"n", "ss", "ns", "l", "s"}).Draw(t, "kind")
		}
		v := p.value(t, from)
		fit := []table.Action{table.Set(attr, v), table.SetIfAbsent(attr, v), table.Remove(attr)}
		switch v.Kind() {
		case table.Number:
			fit = append(fit, table.ActAdd{Attr: attr, Value: v})
		case table.StringSet, table.NumberSet:
			fit = append(fit, table.ActAdd{Attr: attr, Value: v}, table.ActDrop{Attr: attr, Value: v})
		case table.ListKind:
			fit = append(fit, table.ActAppend{Attr: attr, Value: v})
		}
		do = append(do, rapid.SampledFrom(fit).Draw(t, "action"))
	}
	if p.heavy && rapid.Bool().Draw(t, "grow") {
		do = append(do, table.Set("grown", strings.Repeat("y", 20<<10)))
	}
	return do
}

// cond draws a condition on some of the attributes with the given nesting.
func (p pool) cond(t *rapid.T, attrs []string, depth int) table.Cond {
	form := rapid.IntRange(0, 12).Draw(t, "form")
	if form < 4 && depth > 0 {
		members := make([]table.Cond, rapid.IntRange(0, 3).Draw(t, "members"))
		for i := range members {
			members[i] = p.cond(t, attrs, depth-1)
		}
		switch form {
		case 0:
			return table.And(members...)
		case 1:
			return table.Or(members...)
		}
		return table.Not(p.cond(t, attrs, depth-1))
	}
	attr := rapid.SampledFrom(attrs).Draw(t, "attribute")
	v := p.value(t, attr)
	ordered := v.Kind() == table.String || v.Kind() == table.Number || v.Kind() == table.Binary
	switch {
	case form < 6:
		return table.CondExists{Attr: attr, Not: form == 5}
	case form == 6:
		return table.In(attr, v, p.value(t, attr))
	case form == 7 && v.Kind() == table.String:
		return table.HasPrefix(attr, v.Str())
	case form == 8 && ordered:
		in := rapid.SampledFrom([]string{attr, "l", "ss", "ns", "s"}).Draw(t, "in")
		return table.Contains(in, p.value(t, map[string]string{"l": "n", "ss": "s", "ns": "n"}[in]))
	case ordered:
		return table.CondCompare{Attr: attr, Op: table.Op(rapid.IntRange(int(table.OpEq), int(table.OpGe)).Draw(t, "op")), Value: v}
	}
	return table.CondCompare{Attr: attr, Op: table.Op(rapid.IntRange(int(table.OpEq), int(table.OpNe)).Draw(t, "op")), Value: v}
}

// maybe draws the condition of a write, which is often nil.
func (p pool) maybe(t *rapid.T) table.Cond {
	switch rapid.IntRange(0, 7).Draw(t, "condition") {
	case 0, 1:
		return p.cond(t, append([]string{"pk", "sk"}, attributes...), 2)
	case 2:
		return table.IsNew()
	case 3:
		return table.IsStored()
	}
	return nil
}
