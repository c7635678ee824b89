package tabletest

import (
	"strings"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var limits = map[string]func(*suite){
	"AnItemHas400KBAndNoMore": func(s *suite) {
		item := s.item("a", "x", "")
		room := table.MaxItemBytes - item.Size()
		item["x"] = table.V(strings.Repeat("x", room))
		require.NoError(s, s.Put(s.ctx, table.Put{Item: item}))
		assert.Equal(s, item, s.stored(s.key("a")))

		big := s.item("b", "x", strings.Repeat("x", room+1))
		require.ErrorIs(s, s.Put(s.ctx, table.Put{Item: big}), table.ErrLimit)
		require.ErrorIs(s, s.BatchWrite(s.ctx, []table.Write{table.Put{Item: big}}), table.ErrLimit)
		require.ErrorIs(s, s.Transact(s.ctx, table.Put{Item: big}), table.ErrLimit)
		assert.Nil(s, s.stored(s.key("b")))
	},
	"AnUpdateCannotOutgrowAnItem": func(s *suite) {
		old := s.given("a", "x", strings.Repeat("x", 399<<10))
		grow := table.Update{Key: s.key("a"), Do: []table.Action{table.Set("y", strings.Repeat("y", 2<<10))}}
		_, err := s.Update(s.ctx, grow)
		require.ErrorIs(s, err, table.ErrLimit)
		require.ErrorIs(s, s.transact(grow, table.Put{Item: s.item("other")}), table.ErrLimit)
		assert.Equal(s, old, s.stored(s.key("a")))
		assert.Nil(s, s.stored(s.key("other")))
	},
	"KeysHaveTheirSizes": func(s *suite) {
		long := table.Key{PK: s.prefix + strings.Repeat("p", 2048-len(s.prefix)), SK: strings.Repeat("s", 1024)}
		require.NoError(s, s.Put(s.ctx, table.Put{Item: keyOnly(long)}))
		assert.NotNil(s, s.stored(long))
		for name, key := range map[string]table.Key{
			"no key":     {},
			"no pk":      {SK: "a"},
			"no sk":      {PK: s.prefix},
			"long pk":    {PK: long.PK + "p", SK: "a"},
			"long sk":    {PK: s.prefix, SK: long.SK + "s"},
			"bytes of ✓": {PK: s.prefix, SK: strings.Repeat("✓", 342)},
		} {
			_, err := s.Get(s.ctx, key)
			assert.ErrorIs(s, err, table.ErrLimit, name)
			_, err = s.BatchGet(s.ctx, []table.Key{key})
			assert.ErrorIs(s, err, table.ErrLimit, name)
			assert.ErrorIs(s, s.Put(s.ctx, table.Put{Item: keyOnly(key)}), table.ErrLimit, name)
			_, err = s.Update(s.ctx, table.Update{Key: key})
			assert.ErrorIs(s, err, table.ErrLimit, name)
			assert.ErrorIs(s, s.Delete(s.ctx, table.Delete{Key: key}), table.ErrLimit, name)
			for _, w := range []table.Write{
				table.Put{Item: keyOnly(key)}, table.Update{Key: key}, table.Delete{Key: key},
				table.Check{Key: key, If: table.IsNew()},
			} {
				assert.ErrorIs(s, s.Transact(s.ctx, w), table.ErrLimit, name)
			}
		}
		assert.ErrorIs(s, s.Put(s.ctx, table.Put{Item: table.Item{"x": table.V(1)}}), table.ErrLimit)
	},
	"SoHaveIndexKeys": func(s *suite) {
		for name, pair := range map[string][]any{
			"empty pk": indexKeys(table.Due, "", "1"),
			"empty sk": indexKeys(table.Due, s.prefix, ""),
			"long pk":  indexKeys(table.ByEnv, strings.Repeat("p", 2049), "1"),
			"long sk":  indexKeys(table.ByBoth, s.prefix, strings.Repeat("s", 1025)),
		} {
			assert.ErrorIs(s, s.Put(s.ctx, table.Put{Item: s.item("a", pair...)}), table.ErrLimit, name)
		}
		s.given("a")
		_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Set("due_pk", "")}})
		assert.ErrorIs(s, err, table.ErrLimit)
		err = s.Put(s.ctx, table.Put{Item: s.item("a", "due_pk", 5)})
		assert.ErrorIs(s, err, table.ErrInvalid)
	},
	"NumbersHave38Digits": func(s *suite) {
		_, err := table.Decimal(strings.Repeat("9", 39))
		require.ErrorIs(s, err, table.ErrLimit)
		s.given("a", "n", decimal(strings.Repeat("9", 38)))
		_, err = s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{table.Add("n", 1)}})
		require.NoError(s, err, "1e38 has one digit that counts")
		assert.Equal(s, "1"+strings.Repeat("0", 38), s.stored(s.key("a"))["n"].Str())
	},
	"NestingHas32Levels": func(s *suite) {
		nested := func(levels int) table.Value {
			v := table.V("core")
			for range levels {
				v = table.List(v)
			}
			return v
		}
		want := s.given("a", "x", nested(31))
		assert.Equal(s, want, s.stored(s.key("a")))
		require.ErrorIs(s, s.Put(s.ctx, table.Put{Item: s.item("b", "x", nested(40))}), table.ErrLimit)
	},
}

func keyOnly(k table.Key) table.Item {
	return table.Item{"pk": table.V(k.PK), "sk": table.V(k.SK)}
}
