package tabletest

import (
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func decimal(text string) table.Value {
	n, err := table.Decimal(text)
	if err != nil {
		panic(err)
	}
	return n
}

// actionCase is a change of attribute a, from before to after (nil: absent).
var actionCases = []struct {
	name   string
	before any
	do     table.Action
	after  any
}{
	{"set", nil, table.Set("a", 1), 1},
	{"set over another kind", "x", table.Set("a", []int{1}), []int{1}},
	{"set null", "x", table.Set("a", nil), table.V(nil)},
	{"set if absent", nil, table.SetIfAbsent("a", "first"), "first"},
	{"set if absent, present", "first", table.SetIfAbsent("a", "second"), "first"},
	{"remove", 1, table.Remove("a"), nil},
	{"remove absent", nil, table.Remove("a"), nil},
	{"add", 40, table.Add("a", 2), 42},
	{"add to absent", nil, table.Add("a", 5), 5},
	{"add negative", 1, table.Add("a", -3), -2},
	{"add to fraction", 0.5, table.Add("a", 1), 1.5},
	{"add up to nothing", decimal("-7"), table.Add("a", 7), 0},
	{"add exactly", decimal("12345678901234567890123456789012345677"), table.Add("a", 1),
		decimal("12345678901234567890123456789012345678")},
	{"add beyond int64", int64(9223372036854775807), table.Add("a", 1), decimal("9223372036854775808")},
	{"unite numbers", table.SetOf(1, 20), table.AddToSet("a", 3, 1), table.SetOf(1, 3, 20)},
	{"unite strings", table.SetOf("b"), table.AddToSet("a", "c", "a"), table.SetOf("a", "b", "c")},
	{"unite, begun", nil, table.AddToSet("a", 2), table.SetOf(2)},
	{"unite with itself", table.SetOf(1, 2), table.AddToSet("a", 1, 2), table.SetOf(1, 2)},
	{"drop", table.SetOf(1, 2, 3), table.DropFromSet("a", 2, 9), table.SetOf(1, 3)},
	{"drop strings", table.SetOf("x", "y"), table.DropFromSet("a", "y"), table.SetOf("x")},
	{"drop the last", table.SetOf(1, 2), table.DropFromSet("a", 1, 2), nil},
	{"drop from absent", nil, table.DropFromSet("a", 1), nil},
	{"append", []any{1}, table.Append("a", "two", []int{3}), []any{1, "two", []int{3}}},
	{"append, begun", nil, table.Append("a", 1), []int{1}},
	{"append nothing", []int{1}, table.Append("a"), []int{1}},
}

var actions = map[string]func(*suite){
	"Each": func(s *suite) {
		for _, c := range actionCases {
			want := s.item(c.name, "other", "stays")
			if c.before != nil {
				s.given(c.name, "a", c.before, "other", "stays")
			} else {
				s.given(c.name, "other", "stays")
			}
			if c.after != nil {
				want["a"] = table.V(c.after)
			}
			got, err := s.Update(s.ctx, table.Update{Key: s.key(c.name), Do: []table.Action{c.do}})
			require.NoError(s, err, c.name)
			assert.Equal(s, want, got, c.name)
			assert.Equal(s, want, s.stored(s.key(c.name)), c.name)
		}
	},
	"EachInATransaction": func(s *suite) {
		for _, c := range actionCases {
			want := s.item(c.name, "other", "stays")
			if c.before != nil {
				s.given(c.name, "a", c.before, "other", "stays")
			} else {
				s.given(c.name, "other", "stays")
			}
			if c.after != nil {
				want["a"] = table.V(c.after)
			}
			require.NoError(s, s.transact(table.Update{Key: s.key(c.name), Do: []table.Action{c.do}}), c.name)
			assert.Equal(s, want, s.stored(s.key(c.name)), c.name)
		}
	},
	"ManyAtOnce": func(s *suite) {
		s.given("a", "n", 1, "gone", true, "set", table.SetOf(1, 2))
		got, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{
			table.Add("n", 1), table.Set("s", "x"), table.Remove("gone"), table.DropFromSet("set", 1),
			table.SetIfAbsent("s2", "y"), table.Append("l", 1), table.AddToSet("names", "me"),
		}})
		require.NoError(s, err)
		assert.Equal(s, s.item("a", "n", 2, "s", "x", "set", table.SetOf(2), "s2", "y", "l", []int{1},
			"names", table.SetOf("me")), got)
	},
	"AnUpdateMakesTheItem": func(s *suite) {
		got, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Add("n", 3)}})
		require.NoError(s, err)
		assert.Equal(s, s.item("a", "n", 3), got)
		got, err = s.Update(s.ctx, table.Update{Key: s.key("b")})
		require.NoError(s, err)
		assert.Equal(s, s.item("b"), got, "without an action it makes an item of the key alone")
	},
	"WhatDoesNotFitIsRefused": func(s *suite) {
		old := s.given("a", "text", "x", "n", 1, "names", table.SetOf("me"), "l", []int{1})
		for name, do := range map[string]table.Action{
			"add to a text":                     table.Add("text", 1),
			"add to a set":                      table.Add("names", 1),
			"unite with a number":               table.AddToSet("n", 1),
			"unite with a set of another kind":  table.AddToSet("names", 1),
			"drop from a number":                table.DropFromSet("n", 1),
			"drop from a set of another kind":   table.DropFromSet("names", 1),
			"append to a text":                  table.Append("text", 1),
			"append to a set":                   table.Append("names", "you"),
			"set nothing":                       table.Set("text", table.Value{}),
			"change a key attribute":            table.Set("sk", "b"),
			"remove a key attribute":            table.Remove("pk"),
			"an index key that is not a string": table.Set("due_sk", 5),
		} {
			_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{do}})
			assert.ErrorIs(s, err, table.ErrInvalid, name)
			assert.ErrorIs(s, s.transact(table.Update{Key: s.key("a"), Do: []table.Action{do}}), table.ErrInvalid, name)
		}
		_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Set("n", 1), table.Add("n", 1)}})
		require.ErrorIs(s, err, table.ErrInvalid, "one attribute in two actions")
		assert.Equal(s, old, s.stored(s.key("a")))
	},
}
