package table

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDecimalForms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "00.00": "0", "007": "7", "+7": "7", "1.50": "1.5", ".5": "0.5", "5.": "5",
		"1e3": "1000", "1.25E-2": "0.0125", "-12e-1": "-1.2", "1e125": "1" + strings.Repeat("0", 125),
		"1e-130": "0." + strings.Repeat("0", 129) + "1", strings.Repeat("9", 38): strings.Repeat("9", 38),
	} {
		v, err := Decimal(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, v.Str(), in)
	}
	for _, in := range []string{"", "-", ".", "e5", "1e", "1x", "1e99999", "NaN", "Inf", "0x10", "1_000", "--1", "1 "} {
		_, err := Decimal(in)
		assert.ErrorIs(t, err, ErrInvalid, in)
	}
	for _, in := range []string{strings.Repeat("9", 39), "1e126", "1e-131"} {
		_, err := Decimal(in)
		assert.ErrorIs(t, err, ErrLimit, in)
	}
}

func TestDecimalArithmeticIsExact(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,10})?(e-?[0-5])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, err := Decimal(number.Draw(t, "a"))
		require.NoError(t, err)
		b, err := Decimal(number.Draw(t, "b"))
		require.NoError(t, err)
		x, _ := new(big.Rat).SetString(a.Str())
		y, _ := new(big.Rat).SetString(b.Str())
		assert.Equal(t, x.Cmp(y), compareDecimals(a.Str(), b.Str()))
		sum, err := addDecimals(a.Str(), b.Str())
		require.NoError(t, err)
		z, ok := new(big.Rat).SetString(sum.Str())
		require.True(t, ok)
		assert.Zero(t, z.Cmp(x.Add(x, y)))
	})
}

func TestSizesMatchDynamoDB(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v    any
		want int
	}{
		"string":          {"héllo", 6},
		"zero":            {0, 1},
		"one digit":       {7, 2},
		"two digits":      {42, 2},
		"three digits":    {123, 3},
		"negative":        {-42, 3},
		"zeros that end":  {1200000, 2},
		"fraction":        {0.0025, 2},
		"eighteen digits": {int64(123456789012345678), 10},
		"beyond":          {uint64(12345678901234567890), 11},
		"bool":            {true, 1},
		"null":            {nil, 1},
		"binary":          {[]byte{1, 2, 3}, 3},
		"empty list":      {[]int{}, 3},
		"list":            {[]any{"ab", 7}, 3 + 1 + 2 + 1 + 2},
		"map":             {map[string]any{"k": "ab"}, 3 + 1 + 1 + 2},
		"strings":         {SetOf("a", "bc"), 3},
		"numbers":         {SetOf(1, 22), 4},
	} {
		assert.Equal(t, c.want, V(c.v).Size(), name)
	}
	assert.Equal(t, len("pk")+1+len("sk")+2+len("n")+2, Item{"pk": V("p"), "sk": V("ss"), "n": V(1)}.Size())
	assert.Zero(t, Item(nil).Size())
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]float64{0: 1, 1: 1, 1024: 1, 1025: 2, 400 << 10: 400} {
		assert.InDelta(t, want, WriteUnits(size), 0, "%d bytes", size)
	}
	for size, want := range map[int]float64{0: 1, 4096: 1, 4097: 2, 1 << 20: 256} {
		assert.InDelta(t, want, ReadUnits(size, true), 0, "%d bytes", size)
		assert.InDelta(t, want/2, ReadUnits(size, false), 0, "%d bytes", size)
	}
	long := strings.Repeat("x", 1000)
	assert.InDelta(t, 2, IndexWriteUnits(Due, nil, Item{"pk": V(long), "sk": V("s"), "due_pk": V("p"), "due_sk": V("1" + long[:50])}), 0)
}

func TestMeter(t *testing.T) {
	t.Parallel()
	var none *Meter
	none.Add(OpGet, Units{Read: 1})
	none.AddIndex(Due, Units{Read: 1})
	assert.Equal(t, Usage{}, none.Usage())
	assert.Nil(t, MeterFrom(t.Context()))

	m := &Meter{}
	ctx := WithMeter(t.Context(), m)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			MeterFrom(ctx).Add(OpPut, Units{Write: 1})
			MeterFrom(ctx).AddIndex(Due, Units{Write: 0.5})
		})
	}
	wg.Wait()
	want := Usage{Table: Units{Write: 50}, Indexes: map[Index]Units{Due: {Write: 25}}, Requests: map[Operation]int{OpPut: 50}}
	assert.Equal(t, want, m.Usage())
	assert.Equal(t, Units{Write: 75}, m.Usage().Total())
	assert.Equal(t, want, m.Reset())
	assert.Equal(t, Usage{}, m.Usage())
}

func TestCursorRoundTrip(t *testing.T) {
	t.Parallel()
	key := rapid.Custom(func(t *rapid.T) Key {
		return Key{rapid.StringN(1, 20, 80).Draw(t, "pk"), rapid.StringN(1, 20, 80).Draw(t, "sk")}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := Position{Key: key.Draw(t, "key")}
		q := Query{PK: p.Key.PK}
		if rapid.Bool().Draw(t, "index") {
			p.Entry = key.Draw(t, "entry")
			q = Query{Index: Due, PK: p.Entry.PK}
		}
		q.Start = EncodeCursor(q, p)
		got, err := DecodeCursor(q)
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add(string(EncodeCursor(Query{PK: "p"}, Position{Key: Key{"p", "s"}})))
	f.Add("AQD_____Dw")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := DecodeCursor(Query{PK: "p", Start: Cursor(s)})
		if err == nil && p.Key.PK != "p" {
			t.Fatalf("a cursor led to partition %q", p.Key.PK)
		}
		if err != nil && !errors.Is(err, ErrBadCursor) {
			t.Fatal(err)
		}
	})
}

func TestConditionOutranksConflict(t *testing.T) {
	t.Parallel()
	err := error(&TransactionError{Reasons: []Reason{{Err: ErrConflict}, {}, {Err: ErrConditionFailed}}})
	require.ErrorIs(t, err, ErrConditionFailed)
	require.NotErrorIs(t, err, ErrConflict)
	assert.ErrorContains(t, err, "[0: ")
	err = &TransactionError{Reasons: []Reason{{Err: ErrConflict}}}
	require.ErrorIs(t, err, ErrConflict)
}

func TestMeterCountsAfterContextEnds(t *testing.T) {
	t.Parallel()
	m := &Meter{}
	ctx, cancel := context.WithCancel(WithMeter(t.Context(), m))
	cancel()
	assert.Same(t, m, MeterFrom(ctx))
}

func TestApplyDoesNotChangeItem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := anyItem().Draw(t, "item")
		item["n"], item["l"], item["s"] = V(1), List(V(1)), SetOf(1, 2)
		before := EncodeBinary(item)
		decoded, err := DecodeBinary(string(before), 0)
		require.NoError(t, err)
		_, err = Apply(Key{"p", "s"}, item, []Action{Add("n", 1), Append("l", 2), DropFromSet("s", 1), Set("new", 1)})
		require.NoError(t, err)
		require.Len(t, item, len(decoded))
		for name, v := range decoded {
			require.True(t, v.Equal(item[name]))
		}
	})
}
