package sqltable

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// put stores an item with a number, and a place in the index due.
func put(t *testing.T, tbl *Table, key table.Key, n int) {
	t.Helper()
	require.NoError(t, tbl.Put(t.Context(), table.Put{Item: table.Item{"pk": table.V(key.PK), "sk": table.V(key.SK),
		"n": table.V(n), "due_pk": table.V("d"), "due_sk": table.V(fmt.Sprint(n))}}))
}

// TestWhatWasReadBeforeIsNotKept reads a row of the database, and remembers it
// when it has been changed, folded and forgotten: by a fold, or for the sake of
// others that were read.
func TestWhatWasReadBeforeIsNotKept(t *testing.T) {
	t.Parallel()
	for _, folded := range []bool{true, false} {
		db, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Hour})
		m := tbl.memory
		m.budget = 1
		key := table.Key{PK: "p", SK: "s"}
		put(t, tbl, key, 1)
		require.NoError(t, db.Sync())

		before := m.get(key)
		require.False(t, before.known)
		read := reading{pk: key.PK, lost: before.lost}
		require.NoError(t, db.Read(t.Context(), func(conn *sqlite.Conn) (err error) {
			read.whole, err = read.rowsOf(conn, wholeSQL, key.PK)
			return err
		}))
		require.True(t, read.whole)
		m.budget = memoryBudget
		put(t, tbl, key, 2)
		if folded {
			m.budget = 1
			require.NoError(t, db.Sync())
		} else {
			require.NoError(t, db.Sync())
			m.budget = 1
			m.remember(reading{pk: "q", lost: m.get(table.Key{PK: "q"}).lost, whole: true})
		}
		require.False(t, m.get(key).known)
		m.budget = memoryBudget
		m.remember(read)
		item, err := tbl.Get(t.Context(), key)
		require.NoError(t, err)
		assert.EqualValues(t, 2, item["n"].Int())
	}
}

// TestIndexBetweenAFoldAndItsNote queries an index when a fold is committed and
// the memory has not been told: what was folded has been replaced once more.
func TestIndexBetweenAFoldAndItsNote(t *testing.T) {
	t.Parallel()
	db, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Hour})
	key := table.Key{PK: "p", SK: "s"}
	places := func(due string) (out []string) {
		for item, err := range table.All(t.Context(), tbl, table.Query{Index: table.Due, PK: due}) {
			require.NoError(t, err)
			out = append(out, item["due_sk"].Str())
		}
		return out
	}
	place := func(due, at string) {
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: table.Item{"pk": table.V(key.PK), "sk": table.V(key.SK),
			"due_pk": table.V(due), "due_sk": table.V(at)}}))
	}
	place("a", "1")
	require.NoError(t, db.Sync())
	place("b", "2")
	fold, folded := tbl.Freeze()
	place("c", "3")
	check := func() {
		assert.Empty(t, places("a"))
		assert.Empty(t, places("b"))
		assert.Equal(t, []string{"3"}, places("c"))
	}
	check()
	require.NoError(t, db.Write(t.Context(), fold))
	check()
	folded()
	check()
	require.NoError(t, db.Sync())
	check()
}

// TestEndOfAPartitionGrows adds behind the end of a large partition.
func TestEndOfAPartitionGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	for i := range 2 * probeRows {
		put(t, tbl, table.Key{PK: "p", SK: fmt.Sprintf("%03d", i)}, i)
	}
	require.NoError(t, first.Close())
	db, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	for i := 2 * probeRows; i < 3*probeRows; i++ {
		key := table.Key{PK: "p", SK: fmt.Sprintf("%03d", i)}
		_, err := tbl.Get(t.Context(), key)
		require.ErrorIs(t, err, table.ErrNotFound)
		require.True(t, tbl.memory.get(key).known, "no row is looked for behind the end")
		put(t, tbl, key, i)
		require.NoError(t, db.Sync())
		require.NotContains(t, tbl.memory.parts["p"].rows, key.SK, "it is too large to be kept")
		_, err = tbl.Get(t.Context(), key)
		require.NoError(t, err)
	}
}

// TestFamilyIsLearnedAtOnce knows the partitions of a family with its head.
func TestFamilyIsLearnedAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	put(t, tbl, table.Key{PK: "p", SK: "s"}, 1)
	put(t, tbl, table.Key{PK: "p#a", SK: "s"}, 2)
	require.NoError(t, first.Close())
	_, tbl = openWith(t, path, store.Options{FoldAfter: time.Hour})
	_, err := tbl.Get(t.Context(), table.Key{PK: "p", SK: "s"})
	require.NoError(t, err)
	assert.NotNil(t, tbl.memory.get(table.Key{PK: "p#a", SK: "s"}).item)
	for _, key := range []table.Key{{PK: "p", SK: "other"}, {PK: "p#a", SK: "other"}, {PK: "p#b", SK: "s"}, {PK: "p#a#b", SK: "s"}} {
		assert.True(t, tbl.memory.get(key).known, "there is no %s", key)
	}
	for _, key := range []table.Key{{PK: "pa", SK: "s"}, {PK: "q", SK: "s"}} {
		assert.False(t, tbl.memory.get(key).known)
	}
}

// TestNewestPartitionIsNotLookedFor adds partitions with ever larger keys, and
// children: of the first one it is read that there are none behind it.
func TestNewestPartitionIsNotLookedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	put(t, tbl, table.Key{PK: "o#run#1", SK: "s"}, 1)
	put(t, tbl, table.Key{PK: "o#run#1#child", SK: "s"}, 1)
	put(t, tbl, table.Key{PK: "o#see", SK: "s"}, 1)
	require.NoError(t, first.Close())
	db, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	known := func(pk string) bool { return tbl.memory.get(table.Key{PK: pk, SK: "s"}).known }
	held := table.Key{PK: "o#run#5", SK: "s"}
	put(t, tbl, held, 5) // in memory alone when the end is read
	tbl.memory.ends = ends{}
	_, err := tbl.Get(t.Context(), table.Key{PK: "o#run#3", SK: "s"})
	require.ErrorIs(t, err, table.ErrNotFound)
	for n := 6; n < 9; n++ {
		key := table.Key{PK: fmt.Sprintf("o#run#%d", n), SK: "s"}
		child := table.Key{PK: key.PK + "#child", SK: "s"}
		assert.True(t, known(key.PK))
		assert.True(t, known(child.PK))
		page, err := tbl.Query(t.Context(), table.Query{PK: child.PK})
		require.NoError(t, err)
		assert.Empty(t, page.Items)
		put(t, tbl, key, n)
		put(t, tbl, child, n)
		tbl.memory.budget = 1
		require.NoError(t, db.Sync())
		require.Empty(t, tbl.memory.parts)
		tbl.memory.budget = memoryBudget
		for _, key := range []table.Key{key, child, held} {
			_, err := tbl.Get(t.Context(), key)
			require.NoError(t, err)
		}
	}
	for _, pk := range []string{"o", "o#", "o#run", "o#run#", "o#run#1", "o#see", "o#set", "p", "p#run#9"} {
		assert.False(t, known(pk), pk)
	}
}

// TestEndsOfPartitionKeys learns an end of the database, and of what is folded
// between its reading and its noting.
func TestEndsOfPartitionKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	put(t, tbl, table.Key{PK: "o#run#2#child", SK: "s"}, 1)
	put(t, tbl, table.Key{PK: "o#see", SK: "s"}, 1)
	require.NoError(t, first.Close())
	db, tbl := openWith(t, path, store.Options{FoldAfter: time.Hour})
	m := tbl.memory
	known := func(pk string) bool { return m.get(table.Key{PK: pk, SK: "s"}).known }
	_, err := tbl.Get(t.Context(), table.Key{PK: "o#run#1", SK: "s"})
	require.ErrorIs(t, err, table.ErrNotFound)
	assert.Equal(t, ends{"o#run#": "o#run#2#child"}, m.ends)
	assert.True(t, known("o#run#3"))
	assert.False(t, known("o#run#2#child"))
	assert.False(t, known("o#see"))

	m.ends = ends{}
	read := reading{pk: "o#run#1", lost: m.get(table.Key{PK: "o#run#3"}).lost, whole: true, family: true, begin: "o#run#", end: "o#run#2#child"}
	put(t, tbl, table.Key{PK: "o#run#5", SK: "s"}, 5)
	require.NoError(t, db.Sync())
	m.remember(read)
	m.budget = 1
	m.remember(reading{pk: "q", lost: m.get(table.Key{PK: "q"}).lost})
	require.Empty(t, m.parts)
	assert.False(t, known("o#run#5"), "it is in the database")
	assert.True(t, known("o#run#6"))
	for i := range 2 * maxEnds {
		m.ended(fmt.Sprint(i, "#"), "")
	}
	assert.LessOrEqual(t, len(m.ends), maxEnds)
}

// TestRowsThatMoveWhileAPageIsRead writes and folds between the look at the
// memory and the one at the database: the page is read anew.
func TestRowsThatMoveWhileAPageIsRead(t *testing.T) {
	t.Parallel()
	for _, q := range []table.Query{{PK: "p"}, {Index: table.Due, PK: "d"}} {
		db, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Hour})
		tbl.memory.budget = 1
		put(t, tbl, table.Key{PK: "p", SK: "a"}, 1)
		put(t, tbl, table.Key{PK: "p", SK: "b"}, 2)
		require.NoError(t, db.Sync())
		put(t, tbl, table.Key{PK: "p", SK: "a"}, 3)
		seen := tbl.memory.view(q, table.Position{})
		require.False(t, seen.whole)
		put(t, tbl, table.Key{PK: "p", SK: "b"}, 4) // seen in part: b alone is new
		require.NoError(t, db.Sync())
		require.NoError(t, db.Read(t.Context(), func(conn *sqlite.Conn) error {
			r := reader{table: tbl, query: q}
			again, err := r.try(conn, seen, true)
			require.NoError(t, err)
			assert.True(t, again)
			assert.Empty(t, r.page.Items)
			seen = tbl.memory.view(q, table.Position{})
			again, err = r.try(conn, seen, true)
			require.NoError(t, err)
			assert.False(t, again)
			assert.Len(t, r.page.Items, 2)
			return nil
		}))
	}
}

// TestEndOfAPartitionThatGrowsLarge reads, with its family, the few rows that
// the database has of a partition of which the memory has many: the largest key
// of either is behind what is known to be absent.
func TestEndOfAPartitionThatGrowsLarge(t *testing.T) {
	t.Parallel()
	for range 20 { // maps have their own order each time
		m := newMemory()
		for i := range wholeRows - 3 {
			item := table.Item{"n": table.V(i)}
			m.write(table.Key{PK: "p#a", SK: fmt.Sprintf("%04d", i)}, &staged{item: item, size: item.Size()})
		}
		read := reading{pk: "p", family: true, whole: true, rows: map[table.Key]table.Item{}}
		for i := range probeRows {
			read.rows[table.Key{PK: "p#a", SK: fmt.Sprintf("x%d", i)}] = table.Item{"n": table.V(i)}
		}
		m.remember(read)
		p := m.parts["p#a"]
		require.True(t, p.large)
		for key := range read.rows { // they are clean, so they may be forgotten at any time
			m.forget(p.rows[key.SK])
		}
		for key := range read.rows {
			require.False(t, m.get(key).known, "%s is in the database, and %s the last known", key.SK, p.last)
		}
	}
}
