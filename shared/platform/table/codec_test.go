package table

import (
	"encoding/json"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type (
	colour string
	level  int
	tree   struct {
		Name string  `table:"name"`
		Kids []*tree `table:"kids,omitempty"`
	}
	thing struct {
		Key
		DueEntry
		ListEntries
		Colour  colour             `table:"colour"`
		Levels  []level            `table:"levels,set"`
		Colours []colour           `table:"colours,set"`
		Tree    tree               `table:"tree"`
		Next    *tree              `table:"next,omitempty"`
		By      map[colour]level   `table:"by"`
		Addr    netip.Addr         `table:"addr"`
		Raw     json.RawMessage    `table:"raw"`
		At      time.Time          `table:"at,omitempty"`
		Small   int8               `table:"small"`
		Byte    uint8              `table:"byte"`
		F32     float32            `table:"f32"`
		Wait    time.Duration      `table:"wait"`
		Value   Value              `table:"value"`
		Deep    map[string][]level `table:"deep"`
		Secret  string             `table:"-"`
	}
)

func TestMarshalRoundTrip(t *testing.T) {
	t.Parallel()
	in := thing{
		Key: Key{"p", "s"}, DueEntry: DueEntry{"d", "1"}, Colour: "red",
		Levels: []level{-1, 2, 10}, Colours: []colour{"a", "b"},
		Tree: tree{Name: "root", Kids: []*tree{{Name: "kid"}, nil}}, Next: &tree{Name: "next"},
		By: map[colour]level{"x": 1}, Addr: netip.MustParseAddr("::1"), Raw: json.RawMessage(`{"a":1}`),
		At: time.UnixMilli(1700000000123).UTC(), Small: -128, Byte: 255, F32: 0.1, Wait: time.Minute,
		Value: List(V(1), V("a")), Deep: map[string][]level{"a": {1, 1, 2}},
	}
	item, err := Marshal(&in)
	require.NoError(t, err)
	assert.Equal(t, Key{"p", "s"}, item.Key())
	assert.Equal(t, Key{"p", "s"}, Put{Item: in}.Target())
	assert.Equal(t, Key{"p", "s"}, Put{Item: &in}.Target())
	assert.Equal(t, Key{"p", "s"}, Put{Item: item}.Target())
	assert.NotContains(t, item, "l1_pk")
	assert.Equal(t, []string{"-1", "2", "10"}, item["levels"].Members(), "in the order of their worth")

	var out thing
	item["unknown"] = V("ignored")
	require.NoError(t, Unmarshal(item, &out))
	assert.Equal(t, in, out)

	require.NoError(t, Unmarshal(Item{"colour": V(nil)}, &out))
	assert.Equal(t, thing{}, out, "what the item does not have is set to zero")
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	type of struct {
		Key
		DueEntry
		A string `table:"a,omitempty"`
		B []int  `table:"b,set"`
		C string `table:"-"`
	}
	assert.Equal(t, []string{"due_pk", "due_sk", "a", "b"}, Attributes[of]())
	assert.Panics(t, func() { Attributes[struct{ A int }]() })
}

func TestMarshalRejectsInvalidTypes(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]any{
		"no struct":   5,
		"nil":         nil,
		"nil pointer": (*thing)(nil),
		"no tag":      struct{ A int }{},
		"empty name": struct {
			A int `table:",omitempty"`
		}{},
		"twice": struct {
			A, B int `table:"a"`
		}{},
		"twice by embed": struct {
			Key
			A string `table:"pk"`
		}{},
		"unknown option": struct {
			A int `table:"a,string"`
		}{},
		"set of floats": struct {
			A []float64 `table:"a,set"`
		}{},
		"set of no slice": struct {
			A string `table:"a,set"`
		}{},
		"channel": struct {
			A chan int `table:"a"`
		}{},
		"map of int keys": struct {
			A map[int]int `table:"a"`
		}{map[int]int{1: 1}},
		"nested, no tag": struct {
			A struct{ B int } `table:"a"`
		}{},
	} {
		_, err := Marshal(x)
		assert.ErrorIs(t, err, ErrInvalid, name)
		assert.Equal(t, Key{}, Put{Item: struct{}{}}.Target())
	}
	assert.Panics(t, func() { V(make(chan int)) })
}

func TestUnmarshalRejectsMismatches(t *testing.T) {
	t.Parallel()
	var out thing
	for name, item := range map[string]Item{
		"number into string":    {"colour": V(1)},
		"string into number":    {"small": V("1")},
		"beyond int8":           {"small": V(128)},
		"negative into uint8":   {"byte": V(-1)},
		"fraction into int":     {"small": V(1.5)},
		"string into set":       {"levels": V("a")},
		"list into set":         {"levels": V([]int{1})},
		"strings into ints":     {"levels": SetOf("a")},
		"string into struct":    {"tree": V("a")},
		"list into map":         {"by": V([]int{1})},
		"wrong member of map":   {"by": V(map[string]string{"a": "b"})},
		"wrong deep":            {"deep": V(map[string]any{"a": []any{"x"}})},
		"no address":            {"addr": V("x")},
		"number into address":   {"addr": V(1)},
		"number into raw":       {"raw": V(1)},
		"string into time":      {"at": V("x")},
		"wrong inside the tree": {"tree": V(map[string]any{"kids": []any{1}})},
	} {
		assert.ErrorIs(t, Unmarshal(item, &out), ErrInvalid, name)
	}
	assert.ErrorIs(t, Unmarshal(Item{}, out), ErrInvalid, "no pointer")
	assert.ErrorIs(t, Unmarshal(Item{}, nil), ErrInvalid, "nothing")
	assert.ErrorIs(t, Unmarshal(Item{}, (*thing)(nil)), ErrInvalid, "nil pointer")
}

func TestFloatsOutOfDynamoDBRange(t *testing.T) {
	t.Parallel()
	assert.Equal(t, V(0), V(5e-324), "what is too small is nothing")
	for f, want := range map[float64]error{math.Inf(1): ErrInvalid, math.Inf(-1): ErrInvalid, 1e300: ErrLimit} {
		_, err := CheckItem(Item{"pk": V("p"), "sk": V("s"), "x": V([]float64{f})})
		assert.ErrorIs(t, err, want, f)
		assert.ErrorIs(t, CheckCond(Or(Eq("x", f))), want, f)
		assert.ErrorIs(t, CheckCond(Not(In("x", f))), want, f)
		assert.ErrorIs(t, CheckCond(Contains("x", f)), want, f)
	}
	assert.ErrorIs(t, CheckCond(Lt("x", math.NaN())), ErrInvalid)
}

func TestSetOfNamedTypes(t *testing.T) {
	t.Parallel()
	assert.Equal(t, StringSet, SetOf[colour]("1", "2").Kind(), "strings of digits are strings")
	assert.Equal(t, NumberSet, SetOf[level](1, 2).Kind())
	assert.True(t, SetOf(1, 2).Has(2))
	assert.False(t, SetOf("1", "2").Has(2))
	assert.Panics(t, func() { SetOf[int]() })
	assert.Equal(t, None, Strings(nil).Kind())
	ns, err := Numbers([]string{"10", "9", "1e1"})
	require.NoError(t, err)
	assert.Equal(t, []string{"9", "10"}, ns.Members())
}

// anyValue draws a value of any kind with at most the given nesting.
func anyValue(depth int) *rapid.Generator[Value] {
	text := rapid.String()
	kinds := []*rapid.Generator[Value]{
		rapid.Map(text, func(s string) Value { return V(s) }),
		rapid.Map(rapid.Int64(), func(n int64) Value { return V(n) }),
		rapid.Map(rapid.Float64Range(-1e100, 1e100), func(f float64) Value { return V(f) }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) Value { return V(b) }),
		rapid.Map(rapid.Bool(), func(b bool) Value { return V(b) }),
		rapid.Just(V(nil)),
		rapid.Map(rapid.SliceOfN(rapid.Int(), 1, 5), func(ns []int) Value { return SetOf(ns...) }),
		rapid.Map(rapid.SliceOfN(text, 1, 5), func(ss []string) Value { return SetOf(ss...) }),
	}
	if depth > 0 {
		inner := anyValue(depth - 1)
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(vs []Value) Value { return List(vs...) }),
			rapid.Map(rapid.MapOfN(text, inner, 0, 4), func(m map[string]Value) Value { return Map(m) }))
	}
	return rapid.OneOf(kinds...)
}

func anyItem() *rapid.Generator[Item] {
	return rapid.Map(rapid.MapOfN(rapid.String(), anyValue(3), 0, 6), func(m map[string]Value) Item { return m })
}

func TestBinaryRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := anyItem().Draw(t, "item")
		got, err := DecodeBinary(string(EncodeBinary(item)), 0)
		require.NoError(t, err)
		require.Equal(t, len(item), len(got))
		for name, v := range item {
			require.True(t, v.Equal(got[name]), name)
		}
		require.Equal(t, item.Size(), got.Size())
	})
}

// TestBinaryOnly checks that a partial read returns the same attributes as a
// read of the whole item, and counts the rest.
func TestBinaryOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := anyItem().Draw(t, "item")
		var only []string
		want := Item{}
		for name, v := range item {
			if rapid.Bool().Draw(t, "wanted") {
				only = append(only, name)
				want[name] = v
			}
		}
		data := string(EncodeBinary(item))
		got, left, err := DecodeBinaryOnly(data, append(only, "none"), 0)
		require.NoError(t, err)
		require.Equal(t, len(want), len(got))
		for name, v := range want {
			require.True(t, v.Equal(got[name]), name)
		}
		require.Equal(t, item.Size(), got.Size()+left)
		if cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut"); len(item) > 0 {
			_, _, err = DecodeBinaryOnly(data[:cut], only, 0)
			require.Error(t, err)
		}
	})
}

func TestProject(t *testing.T) {
	t.Parallel()
	item := Item{"pk": V("p"), "sk": V("s"), "a": V(1), "b": V(2)}
	assert.Equal(t, Item{"pk": V("p"), "sk": V("s"), "b": V(2)}, item.Project([]string{"b", "c"}))
	assert.Equal(t, item, item.Project(nil))
	assert.Nil(t, Item(nil).Project([]string{"a"}))
}

func FuzzDecodeBinary(f *testing.F) {
	f.Add(string(EncodeBinary(Item{"a": V(1), "b": V([]any{"x", nil, map[string]int{"y": -1}}), "c": SetOf("z")})))
	f.Add("\x01\xff\xff\xff\xff\x0f")
	f.Fuzz(func(t *testing.T, data string) {
		item, err := DecodeBinary(data, 0)
		_, _, skipped := DecodeBinaryOnly(data, nil, 0)
		if (err == nil) != (skipped == nil) {
			t.Fatalf("read: %v, passed over: %v", err, skipped)
		}
		if err != nil {
			return
		}
		again, err := DecodeBinary(string(EncodeBinary(item)), 0)
		if err != nil || len(again) != len(item) {
			t.Fatalf("%v does not come back: %v", item, err)
		}
	})
}

func BenchmarkMarshal(b *testing.B) {
	in := thing{Key: Key{"p", "s"}, DueEntry: DueEntry{"d", "1"}, Colour: "red", Levels: []level{1, 2}, At: time.UnixMilli(1)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(in); err != nil {
			b.Fatal(err)
		}
	}
}
