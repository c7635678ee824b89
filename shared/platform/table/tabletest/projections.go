package tabletest

import (
	"fmt"
	"strings"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var projections = map[string]func(*suite){
	"OnlyWhatIsAskedFor": func(s *suite) {
		s.given("a", "n", 1, "large", strings.Repeat("x", 300<<10), "l", []any{1, "two"}, "m", map[string]any{"n": 2}, "status", "word")
		s.given("b", "large", "x")
		a, b := s.item("a", "n", 1, "l", []any{1, "two"}, "status", "word"), s.item("b")
		only := []string{"status", "n", "l", "none"}

		got, err := s.Get(s.ctx, s.key("a"), table.Consistent, table.Only(only...))
		require.NoError(s, err)
		assert.Equal(s, a, got)
		got, err = s.Get(s.ctx, s.key("b"), table.Only(only...), table.Consistent)
		require.NoError(s, err)
		assert.Equal(s, b, got, "an item that has none of it is there all the same")
		_, err = s.Get(s.ctx, s.key("c"), table.Only(only...), table.Consistent)
		require.ErrorIs(s, err, table.ErrNotFound)

		items, err := s.BatchGet(s.ctx, []table.Key{s.key("b"), s.key("c"), s.key("a")}, table.Consistent, table.Only(only...))
		require.NoError(s, err)
		assert.Equal(s, []table.Item{b, a}, items)

		q := table.Query{PK: s.prefix, Consistent: true, Only: only}
		assert.Equal(s, []table.Item{a, b}, s.all(q))
		q.Filter = table.Eq("m", map[string]any{"n": 2})
		assert.Equal(s, []table.Item{a}, s.all(q), "the filter is about the whole item")
	},
	"NoNamesAreAllOfThem": func(s *suite) {
		want := s.given("a", "n", 1, "x", "y")
		got, err := s.Get(s.ctx, s.key("a"), table.Consistent, table.Only())
		require.NoError(s, err)
		assert.Equal(s, want, got)
	},
	"PagesHoldAsManyItems": func(s *suite) {
		for i, sk := range numbered(11) {
			s.given(sk, "n", i, "large", strings.Repeat("x", 200<<10))
		}
		pages := func(q table.Query) (sizes []int) {
			for {
				page, err := s.Query(s.ctx, q)
				require.NoError(s, err)
				sizes = append(sizes, len(page.Items))
				if q.Start = page.Next; q.Start == "" {
					return sizes
				}
			}
		}
		whole := pages(table.Query{PK: s.prefix, Consistent: true})
		assert.Greater(s, len(whole), 1)
		assert.Equal(s, whole, pages(table.Query{PK: s.prefix, Consistent: true, Only: []string{"n"}}))
	},
	"SenselessOnesAreRefused": func(s *suite) {
		many := make([]string, 900)
		for i := range many {
			many[i] = fmt.Sprint("a", i)
		}
		for name, c := range map[string]struct {
			only []string
			err  error
		}{
			"empty name":     {[]string{"a", ""}, table.ErrInvalid},
			"twice":          {[]string{"a", "b", "a"}, table.ErrInvalid},
			"partition key":  {[]string{"pk"}, table.ErrInvalid},
			"sort key":       {[]string{"sk"}, table.ErrInvalid},
			"too many names": {many, table.ErrLimit},
		} {
			_, err := s.Get(s.ctx, s.key("a"), table.Only(c.only...))
			assert.ErrorIs(s, err, c.err, name)
			_, err = s.BatchGet(s.ctx, []table.Key{s.key("a")}, table.Only(c.only...))
			assert.ErrorIs(s, err, c.err, name)
			_, err = s.Query(s.ctx, table.Query{PK: s.prefix, Only: c.only})
			assert.ErrorIs(s, err, c.err, name)
		}
		_, err := s.Query(s.ctx, table.Query{Index: table.Due, PK: s.prefix, Only: []string{"n"}})
		assert.ErrorIs(s, err, table.ErrInvalid, "an index holds keys alone")
	},
}
