package tabletest

import (
	"slices"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var batches = map[string]func(*suite){
	"AnyNumberOfWritesAndReads": func(s *suite) {
		names := numbered(250)
		var writes []table.Write
		var keys []table.Key
		for i, sk := range names {
			writes = append(writes, table.Put{Item: s.item(sk, "n", i)})
			keys = append(keys, s.key(sk))
		}
		require.NoError(s, s.BatchWrite(s.ctx, writes))
		slices.Reverse(keys)
		got, err := s.BatchGet(s.ctx, append(keys, s.key("none")), table.Consistent)
		require.NoError(s, err)
		require.Len(s, got, 250, "the absent one is left out")
		for i, item := range got {
			require.Equal(s, s.item(names[249-i], "n", 249-i), item, "in the order of the keys")
		}

		writes = writes[:0]
		for i, sk := range names {
			if i%2 == 0 {
				writes = append(writes, table.Delete{Key: s.key(sk)})
			} else {
				writes = append(writes, table.Put{Item: s.item(sk, "n", -i)})
			}
		}
		require.NoError(s, s.BatchWrite(s.ctx, writes))
		got, err = s.BatchGet(s.ctx, keys, table.Consistent)
		require.NoError(s, err)
		require.Len(s, got, 125)
		assert.EqualValues(s, -249, got[0]["n"].Int())
	},
	"NoneIsFine": func(s *suite) {
		require.NoError(s, s.BatchWrite(s.ctx, nil))
		got, err := s.BatchGet(s.ctx, nil)
		require.NoError(s, err)
		assert.Empty(s, got)
	},
	"WhatIsNoBatchIsRefused": func(s *suite) {
		for name, c := range map[string]struct {
			writes []table.Write
			err    error
		}{
			"update":    {[]table.Write{table.Update{Key: s.key("a")}}, table.ErrInvalid},
			"check":     {[]table.Write{table.Check{Key: s.key("a"), If: table.IsNew()}}, table.ErrInvalid},
			"condition": {[]table.Write{table.Put{Item: s.item("a"), If: table.IsNew()}}, table.ErrInvalid},
			"twice":     {[]table.Write{table.Put{Item: s.item("a")}, table.Delete{Key: s.key("a")}}, table.ErrLimit},
			"empty key": {[]table.Write{table.Put{Item: s.item("a")}, table.Delete{}}, table.ErrLimit},
		} {
			assert.ErrorIs(s, s.BatchWrite(s.ctx, c.writes), c.err, name)
		}
		_, err := s.BatchGet(s.ctx, []table.Key{s.key("a"), s.key("a")})
		require.ErrorIs(s, err, table.ErrLimit)
		assert.Empty(s, s.all(table.Query{PK: s.prefix, Consistent: true}), "nothing is written of a bad batch")
	},
}
