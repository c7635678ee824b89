package pebbletable_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// expiring is a table with a model of its expiries: the second after which an
// item may be removed, 0 for never.
type expiring struct {
	db    *store.DB
	table *pebbletable.Table
	now   int64
	model map[table.Key]int64
}

// life draws a TTL attribute and the second it means, relative to the start.
// Anything but a positive integer means never.
func (e *expiring) life(t *rapid.T) (ttl table.Value, at int64) {
	if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
		at = rapid.Int64Range(1, 60).Draw(t, "second")
		return table.V(at), at
	}
	return rapid.SampledFrom([]table.Value{table.V(0), table.V(-5), table.V(7.5), table.V("7"), table.V(nil),
		table.SetOf(7)}).Draw(t, "no time"), 0
}

func (e *expiring) write(t *rapid.T) (w table.Write, at int64) {
	key := table.Key{
		PK: rapid.SampledFrom([]string{"p", "p\x00"}).Draw(t, "pk"),
		SK: rapid.SampledFrom([]string{"a", "a\x00", "a\x00\x01", "a\x01", "é"}).Draw(t, "sk"),
	}
	ttl, at := e.life(t)
	due := table.Item{"pk": table.V(key.PK), "sk": table.V(key.SK), "due_pk": table.V("d"), "due_sk": table.V(key.SK)}
	switch rapid.IntRange(0, 5).Draw(t, "write") {
	case 0:
		return table.Put{Item: due}, 0
	case 1, 2:
		due[table.TTLAttribute] = ttl
		return table.Put{Item: due}, at
	case 3:
		return table.Update{Key: key, Do: []table.Action{table.Set(table.TTLAttribute, ttl)}}, at
	case 4:
		return table.Update{Key: key, Do: []table.Action{table.Remove(table.TTLAttribute)}}, 0
	}
	return table.Delete{Key: key}, -1
}

func (e *expiring) note(w table.Write, at int64) {
	if at < 0 {
		delete(e.model, w.Target())
	} else {
		e.model[w.Target()] = at
	}
}

func (e *expiring) one(t *rapid.T) {
	w, at := e.write(t)
	require.NoError(t, e.table.Transact(t.Context(), w))
	e.note(w, at)
}

// two writes two items in a transaction.
func (e *expiring) two(t *rapid.T) {
	first, firstAt := e.write(t)
	second, secondAt := e.write(t)
	if first.Target() == second.Target() {
		return
	}
	none := table.Check{Key: table.Key{PK: "no", SK: "such"}, If: table.IsStored()}
	if rapid.Bool().Draw(t, "fails") {
		require.ErrorIs(t, e.table.Transact(t.Context(), first, second, none), table.ErrConditionFailed)
		return
	}
	require.NoError(t, e.table.Transact(t.Context(), first, second))
	e.note(first, firstAt)
	e.note(second, secondAt)
}

func (e *expiring) sweep(t *rapid.T) {
	e.now += rapid.Int64Range(0, 20).Draw(t, "seconds")
	want := 0
	maps.DeleteFunc(e.model, func(_ table.Key, at int64) bool {
		if at == 0 || at >= e.now {
			return false
		}
		want++
		return true
	})
	removed, err := e.table.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, removed)
}

// agree compares the items and their entries in an index and among the expiries
// with the model.
func (e *expiring) agree(t *rapid.T) {
	items, due, expire := map[table.Key]bool{}, map[table.Key]bool{}, map[table.Key]bool{}
	err := pebbletable.Dump(t.Context(), e.db,
		func(item table.Item) error {
			items[item.Key()] = item["due_pk"].Kind() != table.None
			return nil
		},
		func(entry pebbletable.Entry) error {
			if entry.Index == table.TTLAttribute {
				assert.False(t, expire[entry.Item], "%+q expires twice", entry.Item)
				expire[entry.Item] = true
			} else {
				due[entry.Item] = true
			}
			return nil
		},
		func(err error) { assert.NoError(t, err) })
	require.NoError(t, err)
	keys, times := map[table.Key]bool{}, map[table.Key]bool{}
	for key, at := range e.model {
		keys[key] = items[key]
		if at > 0 {
			times[key] = true
		}
	}
	require.Equal(t, keys, items)
	require.Equal(t, times, expire)
	maps.DeleteFunc(items, func(_ table.Key, listed bool) bool { return !listed })
	require.ElementsMatch(t, slices.Collect(maps.Keys(items)), slices.Collect(maps.Keys(due)))
}

func TestRandomSweepRemovesExactlyExpiredItems(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		db, err := store.OpenMemory()
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		e := &expiring{db: db, model: map[table.Key]int64{}}
		e.table = pebbletable.New(db, clock.Func(func() time.Time { return time.Unix(e.now, 0) }))
		t.Repeat(map[string]func(*rapid.T){"one": e.one, "two": e.two, "sweep": e.sweep, "": e.agree})
		e.now = 100
		e.sweep(t)
		e.agree(t)
	})
}
