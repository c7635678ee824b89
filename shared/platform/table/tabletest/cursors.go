package tabletest

import (
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var cursors = map[string]func(*suite){
	"AreOfOneQuery": func(s *suite) {
		pk := s.prefix + "#in"
		for _, sk := range numbered(3) {
			s.given(sk, indexKeys(table.Due, pk, sk)...)
		}
		s.settles(table.Query{Index: table.Due, PK: pk}, numbered(3)...)
		first := func(q table.Query) table.Cursor {
			q.Limit = 2
			page, err := s.Query(s.ctx, q)
			require.NoError(s, err)
			require.NotEmpty(s, page.Next)
			return page.Next
		}
		ofTable := first(table.Query{PK: s.prefix})
		ofIndex := first(table.Query{PK: pk, Index: table.Due})
		for name, q := range map[string]table.Query{
			"no cursor":               {PK: s.prefix, Start: "hello"},
			"no base64":               {PK: s.prefix, Start: "%%%"},
			"empty bytes":             {PK: s.prefix, Start: "AA"},
			"truncated":               {PK: s.prefix, Start: ofTable[:len(ofTable)-4]},
			"more than one":           {PK: s.prefix, Start: ofTable + "AAAA"},
			"of another partition":    {PK: s.prefix + "#other", Start: ofTable},
			"of the table for index":  {PK: pk, Index: table.Due, Start: ofTable},
			"of the index for table":  {PK: s.prefix, Start: ofIndex},
			"of another index":        {PK: pk, Index: table.ByList, Start: ofIndex},
			"of another index's part": {PK: pk + "#other", Index: table.Due, Start: ofIndex},
			"outside the range":       {PK: s.prefix, Range: table.Prefix("x"), Start: ofTable},
			"beyond the range":        {PK: s.prefix, Range: table.Before("n0001"), Start: ofTable},
		} {
			_, err := s.Table.(*recorder).Table.Query(s.ctx, q)
			assert.ErrorIs(s, err, table.ErrBadCursor, name)
		}
	},
	"GoOnWhereTheItemHasGone": func(s *suite) {
		for _, sk := range numbered(6) {
			s.given(sk)
		}
		q := table.Query{PK: s.prefix, Limit: 3, Consistent: true}
		page, err := s.Query(s.ctx, q)
		require.NoError(s, err)
		require.NoError(s, s.Delete(s.ctx, table.Delete{Key: page.Items[2].Key()}))
		s.given("n0002a")
		s.given("n0000a")
		q.Start = page.Next
		assert.Equal(s, []string{"n0002a", "n0003", "n0004", "n0005"}, sortKeys(s.all(q)))
	},
}
