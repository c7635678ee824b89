package tabletest

import (
	"slices"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// conditionCase is a condition on the item of conditionItem.
type conditionCase struct {
	name  string
	cond  table.Cond
	holds bool
}

var conditionCases = []conditionCase{
	{"exists", table.Exists("n"), true},
	{"exists, absent", table.Exists("none"), false},
	{"absent", table.Absent("none"), true},
	{"absent, present", table.Absent("n"), false},
	{"exists, null", table.Exists("null"), true},
	{"stored", table.IsStored(), true},
	{"new", table.IsNew(), false},
	{"eq number", table.Eq("n", 10), true},
	{"eq number as float", table.Eq("n", 10.0), true},
	{"eq another number", table.Eq("n", 11), false},
	{"eq of another kind", table.Eq("n", "10"), false},
	{"eq absent", table.Eq("none", 1), false},
	{"eq string", table.Eq("s", "hello"), true},
	{"eq bool", table.Eq("yes", true), true},
	{"eq other bool", table.Eq("yes", false), false},
	{"eq null", table.Eq("null", nil), true},
	{"eq list", table.Eq("l", []any{1, "two"}), true},
	{"eq list of another order", table.Eq("l", []any{"two", 1}), false},
	{"eq map", table.Eq("m", map[string]int{"a": 1}), true},
	{"eq set", table.Eq("ns", table.SetOf(3, 1, 20)), true},
	{"eq smaller set", table.Eq("ns", table.SetOf(1, 3)), false},
	{"eq binary", table.Eq("b", []byte{1, 2}), true},
	{"ne", table.Ne("n", 11), true},
	{"ne same", table.Ne("n", 10), false},
	{"ne of another kind", table.Ne("n", "10"), true},
	{"ne absent", table.Ne("none", 1), true},
	{"lt", table.Lt("n", 10.5), true},
	{"lt by worth, not text", table.Lt("n", 9), false},
	{"lt same", table.Lt("n", 10), false},
	{"lt of another kind", table.Lt("n", "99"), false},
	{"lt absent", table.Lt("none", 99), false},
	{"lt string", table.Lt("s", "help"), true},
	{"lt binary", table.Lt("b", []byte{1, 3}), true},
	{"lt negative", table.Lt("neg", -1), true},
	{"le same", table.Le("n", 10), true},
	{"le less", table.Le("n", 9.99), false},
	{"gt", table.Gt("n", 9), true},
	{"gt same", table.Gt("n", 10), false},
	{"gt absent", table.Gt("none", 0), false},
	{"ge same", table.Ge("n", 10), true},
	{"ge more", table.Ge("n", 11), false},
	{"gt huge", table.Gt("huge", "1"), false},
	{"gt huge number", table.Gt("huge", int64(1)<<62), true},
	{"in", table.In("s", "x", "hello"), true},
	{"in none of them", table.In("s", "x", "y"), false},
	{"in numbers", table.In("n", 1, 10), true},
	{"in absent", table.In("none", 1), false},
	{"prefix", table.HasPrefix("s", "hel"), true},
	{"prefix whole", table.HasPrefix("s", "hello"), true},
	{"prefix longer", table.HasPrefix("s", "hello!"), false},
	{"prefix of nothing", table.HasPrefix("s", ""), true},
	{"prefix of a number", table.HasPrefix("n", "1"), false},
	{"prefix absent", table.HasPrefix("none", "a"), false},
	{"contains part", table.Contains("s", "ell"), true},
	{"contains no part", table.Contains("s", "elk"), false},
	{"contains nothing", table.Contains("s", ""), true},
	{"contains member", table.Contains("ss", "b"), true},
	{"contains part of a member", table.Contains("ss", "bra"), false},
	{"contains number", table.Contains("ns", 20), true},
	{"contains no number", table.Contains("ns", 2), false},
	{"contains member of another kind", table.Contains("ns", "20"), false},
	{"contains in list", table.Contains("l", "two"), true},
	{"contains not in list", table.Contains("l", 2), false},
	{"contains absent", table.Contains("none", "a"), false},
	{"and", table.And(table.Eq("n", 10), nil, table.Eq("s", "hello")), true},
	{"and one not", table.And(table.Eq("n", 10), table.Eq("s", "x")), false},
	{"or", table.Or(table.Eq("n", 11), nil, table.Eq("s", "hello")), true},
	{"or none", table.Or(table.Eq("n", 11), table.Eq("s", "x")), false},
	{"and of nothing", table.And(), true},
	{"or of nothing", table.Or(), false},
	{"and of nothing in an or", table.Or(table.Eq("n", 1), table.And()), true},
	{"or of nothing in an or", table.Or(table.Or(), table.Eq("n", 10)), true},
	{"not of and of nothing", table.Not(table.And()), false},
	{"not of or of nothing", table.And(table.Not(table.Or()), table.Eq("n", 1)), false},
	{"groups of one", table.And(table.Or(table.And(table.Eq("n", 10)))), true},
	{"groups of one in a group", table.Or(table.And(table.Or(table.Eq("n", 1))), table.And(table.Eq("s", "hello"))), true},
	{"not", table.Not(table.Eq("n", 11)), true},
	{"not not", table.Not(table.Not(table.Eq("n", 11))), false},
	{"not true", table.Not(table.Eq("n", 10)), false},
	{"not of an absent comparison", table.Not(table.Lt("none", 1)), true},
	{"nested", table.Or(table.And(table.Eq("n", 1), table.Exists("s")),
		table.Not(table.Or(table.Absent("s"), table.And(table.Lt("n", 0), table.And())))), true},
	{"or of nothing inside", table.And(table.Exists("n"), table.Or()), false},
	{"same attribute twice", table.And(table.Gt("n", 1), table.Lt("n", 100)), true},
	{"reserved words and marks", table.And(table.Eq("status", "x"), table.Eq("a-b.c", 1)), true},
}

func (s *suite) conditionItem(sk string) table.Item {
	huge, err := table.Decimal("1e40")
	require.NoError(s, err)
	return s.item(sk, "n", 10, "s", "hello", "yes", true, "null", nil, "neg", -2.5, "huge", huge,
		"l", []any{1, "two"}, "m", map[string]int{"a": 1}, "b", []byte{1, 2},
		"ss", table.SetOf("a", "b", "zebra"), "ns", table.SetOf(1, 3, 20), "status", "x", "a-b.c", 1)
}

var conditions = map[string]func(*suite){
	"OnUpdates": func(s *suite) {
		require.NoError(s, s.Put(s.ctx, table.Put{Item: s.conditionItem("a")}))
		for _, c := range conditionCases {
			_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Set("seen", c.name)}, If: c.cond})
			s.verdict(c, err)
			if c.holds {
				assert.Equal(s, c.name, s.stored(s.key("a"))["seen"].Str())
			}
		}
	},
	"OnPutsAndDeletes": func(s *suite) {
		for _, c := range conditionCases {
			item := s.conditionItem("a")
			require.NoError(s, s.Put(s.ctx, table.Put{Item: item}))
			s.verdict(c, s.Put(s.ctx, table.Put{Item: item, If: c.cond}))
			s.verdict(c, s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: c.cond}))
			assert.Equal(s, c.holds, s.stored(s.key("a")) == nil, c.name)
		}
	},
	"OnTransactions": func(s *suite) {
		require.NoError(s, s.Put(s.ctx, table.Put{Item: s.conditionItem("a")}))
		for _, c := range conditionCases {
			s.verdict(c, s.transact(
				table.Check{Key: s.key("a"), If: c.cond},
				table.Put{Item: s.item("other", "by", c.name)}))
			assert.Equal(s, c.holds, s.stored(s.key("other"))["by"].Str() == c.name, c.name)
		}
	},
	"AsFilters": func(s *suite) {
		require.NoError(s, s.Put(s.ctx, table.Put{Item: s.conditionItem("a")}))
		for _, c := range conditionCases {
			q := table.Query{PK: s.prefix, Filter: c.cond, Consistent: true}
			if table.CheckQuery(q) != nil {
				continue // a filter cannot refer to the key
			}
			page, err := s.Query(s.ctx, q)
			require.NoError(s, err, c.name)
			assert.Equal(s, c.holds, len(page.Items) == 1, c.name)
		}
	},
	"AnyOfThem": func(s *suite) {
		item := s.conditionItem("a")
		require.NoError(s, s.Put(s.ctx, table.Put{Item: item}))
		rapid.Check(s.T, func(t *rapid.T) {
			c := someCond(3).Draw(t, "cond")
			err := s.transact(table.Check{Key: s.key("a"), If: c})
			if table.Holds(c, item) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, table.ErrConditionFailed)
			}
		})
	},
	"OnAnAbsentItem": func(s *suite) {
		for _, c := range []conditionCase{
			{"new", table.IsNew(), true},
			{"stored", table.IsStored(), false},
			{"absent", table.Absent("n"), true},
			{"eq", table.Eq("n", 1), false},
			{"ne", table.Ne("n", 1), true},
			{"not", table.Not(table.Eq("n", 1)), true},
		} {
			err := s.Put(s.ctx, table.Put{Item: s.item(c.name), If: c.cond})
			s.verdict(c, err)
			assert.Equal(s, c.holds, s.stored(s.key(c.name)) != nil, c.name)
			if err != nil {
				var failed *table.ConditionError
				require.ErrorAs(s, err, &failed)
				assert.Nil(s, failed.Old)
			}
		}
	},
	"AFailedOneShowsWhatStoodInTheWay": func(s *suite) {
		old := s.given("a", "owner", "me", "n", 1)
		writes := []func() error{
			func() error { return s.Put(s.ctx, table.Put{Item: s.item("a"), If: table.IsNew()}) },
			func() error { return s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: table.Eq("owner", "you")}) },
			func() error {
				_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Add("n", 1)}, If: table.Gt("n", 1)})
				return err
			},
		}
		for _, write := range writes {
			err := write()
			require.ErrorIs(s, err, table.ErrConditionFailed)
			var failed *table.ConditionError
			require.ErrorAs(s, err, &failed)
			assert.Equal(s, old, failed.Old)
		}
		assert.Equal(s, old, s.stored(s.key("a")))
	},
	"AHundredValuesOfAnInAreTaken": func(s *suite) {
		s.given("a", "s", "n0099")
		names := numbered(100)
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: table.In("s", names...)}))
		err := s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: table.In("s", append(slices.Clone(names), "x")...)})
		require.ErrorIs(s, err, table.ErrLimit)
	},
	"ALongTextIsRefused": func(s *suite) {
		s.given("a", "s", "n0099")
		ins := func(n int) table.Cond {
			var cs []table.Cond
			for range n {
				cs = append(cs, table.In("s", numbered(100)...))
			}
			return table.And(cs...)
		}
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: ins(6)}))
		require.ErrorIs(s, s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: ins(7)}), table.ErrLimit)
		appends := func(n int) table.Update {
			u := table.Update{Key: s.key("b")}
			for _, attr := range numbered(n) {
				u.Do = append(u.Do, table.Append(attr, 1))
			}
			return u
		}
		_, err := s.Update(s.ctx, appends(70))
		require.NoError(s, err)
		_, err = s.Update(s.ctx, appends(80))
		require.ErrorIs(s, err, table.ErrLimit)
		require.ErrorIs(s, s.transact(appends(80)), table.ErrLimit)
	},
	"SenselessOnesAreRefused": func(s *suite) {
		for name, c := range map[string]table.Cond{
			"order of a boolean": table.Lt("n", true),
			"order of a list":    table.Gt("n", []int{1}),
			"not of nothing":     table.Not(nil),
			"contains a list":    table.Contains("l", []int{1}),
		} {
			require.ErrorIs(s, s.Delete(s.ctx, table.Delete{Key: s.key("a"), If: c}), table.ErrInvalid, name)
		}
		require.ErrorIs(s, s.Transact(s.ctx, table.Check{Key: s.key("a")}), table.ErrInvalid)
	},
}

// someCond combines conditions of conditionCases with the given nesting.
func someCond(depth int) *rapid.Generator[table.Cond] {
	return rapid.Custom(func(t *rapid.T) table.Cond {
		if depth == 0 || rapid.Bool().Draw(t, "leaf") {
			return rapid.SampledFrom(conditionCases).Draw(t, "case").cond
		}
		members := rapid.SliceOfN(someCond(depth-1), 0, 3)
		switch rapid.IntRange(0, 2).Draw(t, "form") {
		case 0:
			return table.And(members.Draw(t, "and")...)
		case 1:
			return table.Or(members.Draw(t, "or")...)
		}
		return table.Not(someCond(depth-1).Draw(t, "not"))
	})
}

func (s *suite) verdict(c conditionCase, err error) {
	s.Helper()
	if c.holds {
		assert.NoError(s, err, c.name)
	} else {
		assert.ErrorIs(s, err, table.ErrConditionFailed, c.name)
	}
}
