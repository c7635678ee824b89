package tabletest

import (
	"encoding/json"
	"strings"
	"time"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type state string

type step struct {
	Name  string  `table:"name"`
	Share float64 `table:"share"`
}

// record has a field of every kind that the codec supports.
type record struct {
	table.Key
	State   state             `table:"state"`
	Text    string            `table:"text"`
	Count   int               `table:"count"`
	Big     uint64            `table:"big"`
	Ratio   float64           `table:"ratio"`
	Live    bool              `table:"live"`
	Raw     json.RawMessage   `table:"raw"`
	Blob    []byte            `table:"blob"`
	At      time.Time         `table:"at"`
	Maybe   *int              `table:"maybe"`
	Never   *int              `table:"never"`
	Steps   []step            `table:"steps"`
	Labels  map[string]string `table:"labels"`
	Waits   []int             `table:"waits,set"`
	Tags    []state           `table:"tags,set"`
	Nothing []int             `table:"nothing,set"`
	Free    any               `table:"free"`
	Left    string            `table:"left,omitempty"`
	table.DueEntry
}

var items = map[string]func(*suite){
	"AStructComesBackAsItWas": func(s *suite) {
		maybe := 7
		in := record{
			Key: s.key("a"), State: "RUNNING", Text: "héllo ✓ \x00", Count: -5, Big: 1<<64 - 1, Ratio: 0.1,
			Live: true, Raw: json.RawMessage(`{"n": 12345678901234567890}`), Blob: []byte{0, 1, 255},
			At: time.UnixMilli(1700000000123).UTC(), Maybe: &maybe,
			Steps:  []step{{"a", 0.5}, {"b", 1e-9}},
			Labels: map[string]string{"x": "", "y": "z"},
			Waits:  []int{1, 3, 20}, Tags: []state{"a", "b"},
			Free:     []any{int64(1), "a", nil, true, map[string]any{"deep": 2.5}},
			DueEntry: table.DueEntry{DuePK: s.prefix + "#due", DueSK: "1"},
		}
		require.NoError(s, s.Put(s.ctx, table.Put{Item: in}))
		out, err := table.Load[record](s.ctx, s.Table, in.Key, table.Consistent)
		require.NoError(s, err)
		assert.Equal(s, in, out)

		item := s.stored(in.Key)
		assert.NotContains(s, item, "left")
		assert.NotContains(s, item, "nothing")
		assert.Equal(s, table.Null, item["never"].Kind())
		assert.Equal(s, in.Key, item.Key())
	},
	"NumbersAreExact": func(s *suite) {
		for i, text := range []string{
			"0", "-1", "0.1", "12345678901234567890123456789012345678", "-0.000000000000000000000001",
			"99999999999999999999999999999999999999", "123456789.987654321", "1000000000000000000000000000000000000000000",
		} {
			n, err := table.Decimal(text)
			require.NoError(s, err)
			sk := numbered(i + 1)[i]
			require.NoError(s, s.Put(s.ctx, table.Put{Item: s.item(sk, "n", n)}))
			assert.Equal(s, text, s.stored(s.key(sk))["n"].Str())
		}
	},
	"AnEmptyStringListOrMapStays": func(s *suite) {
		want := s.given("a", "s", "", "l", []int{}, "m", map[string]int{}, "b", []byte{}, "z", nil)
		assert.Equal(s, want, s.stored(s.key("a")))
	},
	"APutReplacesTheWholeItem": func(s *suite) {
		s.given("a", "x", 1, "y", 2)
		want := s.given("a", "y", 3)
		assert.Equal(s, want, s.stored(s.key("a")))
	},
	"AnAbsentItemIsNotFound": func(s *suite) {
		_, err := s.Get(s.ctx, s.key("a"))
		require.ErrorIs(s, err, table.ErrNotFound)
		_, err = table.Load[record](s.ctx, s.Table, s.key("a"))
		require.ErrorIs(s, err, table.ErrNotFound)
	},
	"ADeletedItemIsGone": func(s *suite) {
		s.given("a")
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: s.key("a")}))
		assert.Nil(s, s.stored(s.key("a")))
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: s.key("a")}), "an absent one is fine")
	},
	"KeysAreBytesNotWords": func(s *suite) {
		for _, sk := range []string{"a", "A", "á", "a ", "a\x00", strings.Repeat("k", 1024)} {
			want := s.given(sk, "v", sk)
			assert.Equal(s, want, s.stored(s.key(sk)))
		}
		assert.Len(s, s.all(table.Query{PK: s.prefix}), 6)
	},
	"WhatIsReturnedIsTheCallersOwn": func(s *suite) {
		want := s.given("a", "n", 1)
		got, err := s.Update(s.ctx, table.Update{Key: s.key("a")})
		require.NoError(s, err)
		got["n"] = table.V(99)
		s.stored(s.key("a"))["n"] = table.V(98)
		assert.Equal(s, want, s.stored(s.key("a")))
	},
	"TheTableIsReachable": func(s *suite) {
		require.NoError(s, s.Check(s.ctx))
	},
}
