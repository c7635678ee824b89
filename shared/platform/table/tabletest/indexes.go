package tabletest

import (
	"fmt"
	"slices"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// indexKeys returns the pair of attributes that puts an item into an index.
func indexKeys(x table.Index, pk, sk string) []any {
	pkName, skName := x.Attributes()
	return []any{pkName, pk, skName, sk}
}

var indexes = map[string]func(*suite){
	"HoldKeysAndNothingElse": func(s *suite) {
		for _, x := range table.Indexes {
			pk := s.prefix + "#in"
			s.given("a-"+string(x), append(indexKeys(x, pk, "1"), "other", "stays", "n", 1)...)
			q := table.Query{Index: x, PK: pk}
			s.settles(q, "a-"+string(x))
			assert.Equal(s, []table.Item{s.item("a-"+string(x), indexKeys(x, pk, "1")...)}, s.all(q))
		}
	},
	"EveryRangeBothWays": func(s *suite) {
		pk := s.prefix + "#in"
		for _, isk := range rangeKeys {
			s.given("of "+isk, indexKeys(table.ByFlow, pk, isk)...)
		}
		name := func(isks []string) []string {
			var out []string
			for _, isk := range isks {
				out = append(out, "of "+isk)
			}
			return out
		}
		s.settles(table.Query{Index: table.ByFlow, PK: pk}, name(rangeKeys)...)
		for _, c := range rangeCases {
			for limit := range 4 {
				what := fmt.Sprintf("%s, pages of %d", c.name, limit)
				q := table.Query{Index: table.ByFlow, PK: pk, Range: c.r, Limit: limit}
				want := append([]string{}, name(c.want)...)
				assert.Equal(s, want, sortKeys(s.all(q)), what)
				slices.Reverse(want)
				q.Reverse = true
				assert.Equal(s, want, sortKeys(s.all(q)), what+", reverse")
			}
		}
	},
	"AreSparse": func(s *suite) {
		pk := s.prefix + "#in"
		s.given("half", "due_pk", pk)
		s.given("other half", "due_sk", "1")
		s.given("none", "n", 1)
		s.given("whole", indexKeys(table.Due, pk, "1")...)
		s.settles(table.Query{Index: table.Due, PK: pk}, "whole")
	},
	"FollowTheItem": func(s *suite) {
		pk, elsewhere := s.prefix+"#in", s.prefix+"#elsewhere"
		here, there := table.Query{Index: table.Due, PK: pk}, table.Query{Index: table.Due, PK: elsewhere}
		key := s.key("a")
		update := func(do ...table.Action) {
			_, err := s.Update(s.ctx, table.Update{Key: key, Do: do})
			require.NoError(s, err)
		}
		s.given("a", "n", 1)
		s.settles(here)
		update(table.Set("due_pk", pk), table.Set("due_sk", "5"))
		s.settles(here, "a")
		update(table.Set("n", 2))
		s.settles(here, "a")
		s.given("b", indexKeys(table.Due, pk, "3")...)
		s.settles(here, "b", "a")
		update(table.Set("due_sk", "1"))
		s.settles(here, "a", "b")
		update(table.Set("due_pk", elsewhere))
		s.settles(here, "b")
		s.settles(there, "a")
		update(table.Remove("due_sk"))
		s.settles(there)
		require.NoError(s, s.transact(
			table.Put{Item: s.item("a", indexKeys(table.Due, pk, "9")...)},
			table.Update{Key: s.key("b"), Do: []table.Action{table.Set("due_sk", "8")}}))
		s.settles(here, "b", "a")
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: key}))
		s.settles(here, "b")
		s.given("b", "n", 1)
		s.settles(here)
	},
	"PagesOfManyAtOnePlace": func(s *suite) {
		pk := s.prefix + "#in"
		var writes []table.Write
		for _, sk := range numbered(60) {
			writes = append(writes, table.Put{Item: s.item(sk, indexKeys(table.ByList, pk, "same")...)})
		}
		require.NoError(s, s.BatchWrite(s.ctx, writes))
		for _, reverse := range []bool{false, true} {
			q := table.Query{Index: table.ByList, PK: pk, Limit: 7, Reverse: reverse}
			// The order of items with the same index key depends on the driver.
			s.settlesInAnyOrder(q, numbered(60))
		}
	},
	"FiltersSeeOnlyKeys": func(s *suite) {
		pk := s.prefix + "#in"
		s.given("a", append(indexKeys(table.Due, pk, "1"), "n", 1)...)
		s.settles(table.Query{Index: table.Due, PK: pk}, "a")
		for _, c := range []conditionCase{
			{"eq", table.Eq("sk", "a"), true},
			{"eq another", table.Eq("sk", "b"), false},
			{"and of nothing", table.And(), true},
			{"or of nothing", table.Or(), false},
		} {
			got := s.all(table.Query{Index: table.Due, PK: pk, Filter: c.cond})
			assert.Equal(s, c.holds, len(got) == 1, c.name)
		}
	},
}
