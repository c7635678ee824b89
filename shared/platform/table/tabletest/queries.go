package tabletest

import (
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rangeCases are ranges over the sort keys of rangeKeys.
var rangeKeys = []string{"a", "a#1", "a#2", "a#20", "b", "bé", "c"}

var rangeCases = []struct {
	name string
	r    table.Range
	want []string
}{
	{"all", table.Range{}, rangeKeys},
	{"equal", table.Range{Kind: table.RangeEqual, From: "a#2"}, []string{"a#2"}},
	{"equal to none", table.Range{Kind: table.RangeEqual, From: "a#"}, nil},
	{"prefix", table.Prefix("a#"), []string{"a#1", "a#2", "a#20"}},
	{"prefix of one", table.Prefix("bé"), []string{"bé"}},
	{"prefix of all", table.Prefix(""), rangeKeys},
	{"prefix of none", table.Prefix("x"), nil},
	{"between", table.Between("a#2", "b"), []string{"a#2", "a#20", "b"}},
	{"between what is not there", table.Between("a#15", "bz"), []string{"a#2", "a#20", "b"}},
	{"between the wrong way round", table.Between("b", "a"), nil},
	{"at least", table.AtLeast("b"), []string{"b", "bé", "c"}},
	{"after", table.After("b"), []string{"bé", "c"}},
	{"at most", table.AtMost("a#2"), []string{"a", "a#1", "a#2"}},
	{"before", table.Before("a#2"), []string{"a", "a#1"}},
}

var queries = map[string]func(*suite){
	"EveryRangeBothWays": func(s *suite) {
		for _, sk := range rangeKeys {
			s.given(sk)
		}
		for _, c := range rangeCases {
			for limit := range 4 {
				q := table.Query{PK: s.prefix, Range: c.r, Limit: limit, Consistent: true}
				name := fmt.Sprintf("%s, pages of %d", c.name, limit)
				assert.Equal(s, append([]string{}, c.want...), sortKeys(s.all(q)), name)
				q.Reverse = true
				back := slices.Clone(c.want)
				slices.Reverse(back)
				assert.Equal(s, append([]string{}, back...), sortKeys(s.all(q)), name+", reverse")
			}
		}
	},
	"OnlyItsPartition": func(s *suite) {
		want := s.given("a", "n", 1)
		other := s.item("a")
		other["pk"] = table.V(s.prefix + "1")
		require.NoError(s, s.Put(s.ctx, table.Put{Item: other}))
		assert.Equal(s, []table.Item{want}, s.all(table.Query{PK: s.prefix, Consistent: true}))
		assert.Empty(s, s.all(table.Query{PK: s.prefix[:len(s.prefix)-1], Consistent: true}))
	},
	"LimitCountsWhatIsRead": func(s *suite) {
		for i, sk := range numbered(10) {
			s.given(sk, "n", i)
		}
		q := table.Query{PK: s.prefix, Limit: 4, Filter: table.Ge("n", 6), Consistent: true}
		var sizes []int
		var got []string
		for {
			page, err := s.Query(s.ctx, q)
			require.NoError(s, err)
			sizes = append(sizes, len(page.Items))
			got = append(got, sortKeys(page.Items)...)
			if page.Next == "" {
				break
			}
			q.Start = page.Next
		}
		assert.Equal(s, []int{0, 2, 2}, sizes, "an empty page need not be the end")
		assert.Equal(s, numbered(10)[6:], got)
	},
	"ALimitReachedExactlyGivesACursor": func(s *suite) {
		for _, sk := range numbered(6) {
			s.given(sk)
		}
		for _, reverse := range []bool{false, true} {
			var sizes []int
			q := table.Query{PK: s.prefix, Limit: 3, Reverse: reverse, Consistent: true}
			for done := false; !done; {
				page, err := s.Query(s.ctx, q)
				require.NoError(s, err)
				sizes = append(sizes, len(page.Items))
				q.Start, done = page.Next, page.Next == ""
			}
			assert.Equal(s, []int{3, 3, 0}, sizes, "whether more follows is not looked at")
		}
	},
	"APageHoldsAMegabyteReadNotFiltered": func(s *suite) {
		var writes []table.Write
		for i, sk := range numbered(30) {
			writes = append(writes, table.Put{Item: s.item(sk, "n", i, "x", strings.Repeat("x", 100<<10))})
		}
		require.NoError(s, s.BatchWrite(s.ctx, writes))
		for _, filter := range []table.Cond{nil, table.Eq("n", 29)} {
			q := table.Query{PK: s.prefix, Filter: filter, Consistent: true}
			pages, items := 0, 0
			for {
				page, err := s.Query(s.ctx, q)
				require.NoError(s, err)
				pages++
				items += len(page.Items)
				assert.LessOrEqual(s, len(page.Items), 11)
				if page.Next == "" {
					break
				}
				q.Start = page.Next
			}
			if filter == nil {
				assert.Equal(s, 3, pages)
				assert.Equal(s, 30, items)
			} else {
				assert.Equal(s, s.deviates.filteredPages(3), pages)
				assert.Equal(s, 1, items)
			}
		}
	},
	"AReaderWhoLeavesEarlyReadsNoMore": func(s *suite) {
		for _, sk := range numbered(9) {
			s.given(sk)
		}
		meter := &table.Meter{}
		for _, err := range table.All(table.WithMeter(s.ctx, meter), s.Table, table.Query{PK: s.prefix, Limit: 3}) {
			require.NoError(s, err)
			break
		}
		assert.Equal(s, 1, meter.Usage().Requests[table.OpQuery])
	},
	"SenselessOnesAreRefused": func(s *suite) {
		for name, c := range map[string]struct {
			q   table.Query
			err error
		}{
			"empty partition":          {table.Query{}, table.ErrLimit},
			"empty bound":              {table.Query{PK: s.prefix, Range: table.AtLeast("")}, table.ErrLimit},
			"long partition":           {table.Query{PK: strings.Repeat("p", 2049)}, table.ErrLimit},
			"long bound":               {table.Query{PK: s.prefix, Range: table.Prefix(strings.Repeat("p", 1025))}, table.ErrLimit},
			"negative limit":           {table.Query{PK: s.prefix, Limit: -1}, table.ErrInvalid},
			"unknown index":            {table.Query{PK: s.prefix, Index: "l9"}, table.ErrInvalid},
			"consistent index":         {table.Query{PK: s.prefix, Index: table.Due, Consistent: true}, table.ErrInvalid},
			"filter on the key":        {table.Query{PK: s.prefix, Filter: table.Not(table.HasPrefix("sk", "a"))}, table.ErrInvalid},
			"filter on the index key":  {table.Query{PK: s.prefix, Index: table.Due, Filter: table.Gt("due_sk", "a")}, table.ErrInvalid},
			"filter on an unheld word": {table.Query{PK: s.prefix, Index: table.Due, Filter: table.Exists("n")}, table.ErrInvalid},
			"filter of too many words": {table.Query{PK: s.prefix, Filter: table.In("x", numbered(101)...)}, table.ErrLimit},
		} {
			_, err := s.Table.(*recorder).Table.Query(s.ctx, c.q)
			assert.ErrorIs(s, err, c.err, name)
		}
	},
}
