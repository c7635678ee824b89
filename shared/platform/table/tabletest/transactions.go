package tabletest

import (
	"errors"
	"strings"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var transactions = map[string]func(*suite){
	"AppliesAll": func(s *suite) {
		s.given("changed", "n", 1)
		s.given("deleted")
		s.given("checked", "ok", true)
		require.NoError(s, s.transact(
			table.Put{Item: s.item("put", "x", 1), If: table.IsNew()},
			table.Update{Key: s.key("changed"), Do: []table.Action{table.Add("n", 1)}, If: table.Eq("n", 1)},
			table.Delete{Key: s.key("deleted"), If: table.IsStored()},
			table.Check{Key: s.key("checked"), If: table.Eq("ok", true)},
			table.Update{Key: s.key("made"), Do: []table.Action{table.Set("x", 2)}},
		))
		assert.Equal(s, s.item("put", "x", 1), s.stored(s.key("put")))
		assert.Equal(s, s.item("changed", "n", 2), s.stored(s.key("changed")))
		assert.Nil(s, s.stored(s.key("deleted")))
		assert.Equal(s, s.item("checked", "ok", true), s.stored(s.key("checked")))
		assert.Equal(s, s.item("made", "x", 2), s.stored(s.key("made")))
	},
	"AppliesNothingAndSaysWhy": func(s *suite) {
		old := s.given("a", "n", 1)
		err := s.transact(
			table.Put{Item: s.item("new", "x", 1)},
			table.Update{Key: s.key("a"), Do: []table.Action{table.Add("n", 1)}, If: table.Eq("n", 5)},
			table.Delete{Key: s.key("none"), If: table.IsStored()},
			table.Check{Key: s.key("new2"), If: table.IsNew()},
		)
		require.ErrorIs(s, err, table.ErrConditionFailed)
		require.NotErrorIs(s, err, table.ErrConflict)
		var cancelled *table.TransactionError
		require.ErrorAs(s, err, &cancelled)
		require.Len(s, cancelled.Reasons, 4)
		assert.NoError(s, cancelled.Reasons[0].Err)
		assert.NoError(s, cancelled.Reasons[3].Err)
		got, failed := cancelled.Failed(1)
		assert.True(s, failed)
		assert.Equal(s, old, got)
		got, failed = cancelled.Failed(2)
		assert.True(s, failed)
		assert.Nil(s, got)
		_, failed = cancelled.Failed(0)
		assert.False(s, failed)
		assert.Nil(s, s.stored(s.key("new")))
		assert.Equal(s, old, s.stored(s.key("a")))
	},
	"AnUnfitActionCancels": func(s *suite) {
		s.given("a", "text", "x")
		err := s.transact(
			table.Put{Item: s.item("new")},
			table.Update{Key: s.key("a"), Do: []table.Action{table.Add("text", 1)}})
		require.ErrorIs(s, err, table.ErrInvalid)
		assert.Nil(s, s.stored(s.key("new")))
	},
	"AnUpdateWithoutActions": func(s *suite) {
		old := s.given("a", "n", 1)
		require.NoError(s, s.transact(
			table.Update{Key: s.key("a"), If: table.Eq("n", 1)},
			table.Update{Key: s.key("new"), If: table.IsNew()}))
		assert.Equal(s, old, s.stored(s.key("a")))
		assert.Equal(s, s.item("new"), s.stored(s.key("new")))
		require.ErrorIs(s, s.transact(table.Update{Key: s.key("a"), If: table.Eq("n", 2)}), table.ErrConditionFailed)
	},
	"TheSameItemTwiceIsRefused": func(s *suite) {
		for _, second := range []table.Write{
			table.Put{Item: s.item("a")},
			table.Update{Key: s.key("a")},
			table.Delete{Key: s.key("a")},
			table.Check{Key: s.key("a"), If: table.IsNew()},
		} {
			err := s.Transact(s.ctx, table.Put{Item: s.item("a")}, second)
			require.ErrorIs(s, err, table.ErrLimit)
			require.False(s, errors.As(err, new(*table.TransactionError)), "it is rejected before anything is tried")
		}
		assert.Nil(s, s.stored(s.key("a")))
	},
	"AHundredWritesAndNoMore": func(s *suite) {
		var writes []table.Write
		for _, sk := range numbered(100) {
			writes = append(writes, table.Put{Item: s.item(sk, "x", 1), If: table.IsNew()})
		}
		require.NoError(s, s.transact(writes...))
		assert.Len(s, s.all(table.Query{PK: s.prefix, Consistent: true}), 100)

		err := s.transact(writes...)
		var cancelled *table.TransactionError
		require.ErrorAs(s, err, &cancelled)
		for i := range writes {
			_, failed := cancelled.Failed(i)
			require.True(s, failed)
		}
		writes = append(writes, table.Delete{Key: s.key("x")})
		require.ErrorIs(s, s.Transact(s.ctx, writes...), table.ErrLimit)
		require.ErrorIs(s, s.Transact(s.ctx), table.ErrLimit, "none")
	},
	"FourMegabytesAndNoMore": func(s *suite) {
		var writes []table.Write
		for _, sk := range numbered(11) {
			writes = append(writes, table.Put{Item: s.item(sk, "x", strings.Repeat("x", 390<<10))})
		}
		require.ErrorIs(s, s.Transact(s.ctx, writes...), table.ErrLimit)
		assert.Empty(s, s.all(table.Query{PK: s.prefix, Consistent: true}))
		require.NoError(s, s.transact(writes[:10]...))
		assert.Len(s, s.all(table.Query{PK: s.prefix, Consistent: true}), 10)
	},
	"AcrossPartitions": func(s *suite) {
		other := s.item("a")
		other["pk"] = table.V(s.prefix + "#other")
		require.NoError(s, s.transact(table.Put{Item: s.item("a")}, table.Put{Item: other}))
		assert.NotNil(s, s.stored(other.Key()))
	},
}
