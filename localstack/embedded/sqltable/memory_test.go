package sqltable

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/localstack/embedded/store"
	"millrace/shared/clock"
	"millrace/shared/table"
	"millrace/shared/table/tabletest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func openWith(tb testing.TB, path string, opts store.Options) (*store.DB, *Table) {
	tb.Helper()
	db, err := store.Open(path, opts)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	t, err := New(db, clock.System{})
	require.NoError(tb, err)
	return db, t
}

// TestTableWithoutMemory passes the port's suite while everything is folded at
// once and nothing is kept in memory.
func TestTableWithoutMemory(t *testing.T) {
	t.Parallel()
	tabletest.Exercise(t, func(t *testing.T) table.Table {
		_, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Nanosecond})
		tbl.memory.budget = 1
		return tbl
	})
}

// model is a table as a plain map.
type model map[table.Key]table.Item

func (m model) query(q table.Query) (keys []string) {
	for key, item := range m {
		place, stands := key, true
		if q.Index != "" {
			place, stands = item.Entry(q.Index)
		}
		if stands && place.PK == q.PK && q.Range.Contains(place.SK) {
			keys = append(keys, place.SK+"\x00"+key.PK+"\x00"+key.SK)
		}
	}
	slices.Sort(keys)
	if q.Reverse {
		slices.Reverse(keys)
	}
	return keys
}

// partitions are of families and alone; with up to 15 rows they are small or not.
var partitions = []string{"p", "p#a", "p#b", "p#a#c", "q"}

// growing draws a partition key: one of those, or one of keys that grow.
func growing(t *rapid.T, last *int) string {
	if rapid.Bool().Draw(t, "fixed") {
		return rapid.SampledFrom(partitions).Draw(t, "pk")
	}
	n := *last - rapid.IntRange(-1, 2).Draw(t, "age")
	*last = max(*last, n)
	return fmt.Sprintf("o#run#%03d", n) + rapid.SampledFrom([]string{"", "", "", "#a"}).Draw(t, "child")
}

// TestMemoryAgainstAModel mixes writes and reads with folds, evictions and
// restarts: whatever is in memory, in the journal or in the database, reads tell
// what was written last.
func TestMemoryAgainstAModel(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		file := fmt.Sprint(path, n)
		var db *store.DB
		var tbl *Table
		open := func() {
			var err error
			db, err = store.Open(file, store.Options{FoldAfter: time.Hour})
			require.NoError(t, err)
			tbl, err = New(db, clock.System{})
			require.NoError(t, err)
		}
		open()
		defer func() { require.NoError(t, db.Close()) }()
		ctx := context.Background()
		want := model{}
		last := 100
		key := func(t *rapid.T) table.Key {
			pk, most := growing(t, &last), 14
			if strings.HasPrefix(pk, "o") {
				most = 1 // there are more of these
			}
			return table.Key{PK: pk, SK: fmt.Sprintf("%02d", rapid.IntRange(0, most).Draw(t, "sk"))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				var writes []table.Write
				changed := model{}
				for range rapid.IntRange(1, 3).Draw(t, "n") {
					k := key(t)
					if _, twice := changed[k]; twice {
						continue
					}
					changed[k] = nil
					if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
						writes = append(writes, table.Delete{Key: k})
						continue
					}
					item := table.Item{"pk": table.V(k.PK), "sk": table.V(k.SK), "v": table.V(rapid.Int().Draw(t, "v")),
						"due_pk": table.V(rapid.SampledFrom([]string{"d", "e"}).Draw(t, "due")), "due_sk": table.V(rapid.StringMatching("[a-c]").Draw(t, "at"))}
					if rapid.Bool().Draw(t, "sparse") {
						delete(item, "due_sk")
					}
					changed[k] = item
					writes = append(writes, table.Put{Item: item})
				}
				require.NoError(t, tbl.Transact(ctx, writes...))
				for k, item := range changed {
					if want[k] = item; item == nil {
						delete(want, k)
					}
				}
			},
			"refused": func(t *rapid.T) {
				k := key(t)
				err := tbl.Transact(ctx,
					table.Put{Item: table.Item{"pk": table.V(k.PK), "sk": table.V("new"), "v": table.V(1)}},
					table.Check{Key: table.Key{PK: "nobody", SK: "x"}, If: table.IsStored()})
				require.ErrorIs(t, err, table.ErrConditionFailed)
			},
			"get": func(t *rapid.T) {
				k := key(t)
				item, err := tbl.Get(ctx, k)
				if want[k] == nil {
					require.ErrorIs(t, err, table.ErrNotFound)
					return
				}
				require.NoError(t, err)
				require.Equal(t, want[k], item)
			},
			"query": func(t *rapid.T) {
				q := table.Query{PK: growing(t, &last), Limit: rapid.IntRange(0, 4).Draw(t, "limit"),
					Reverse: rapid.Bool().Draw(t, "reverse"), Range: rapid.SampledFrom([]table.Range{{}, table.Prefix("0"), table.Between("03", "11")}).Draw(t, "range")}
				if rapid.Bool().Draw(t, "index") {
					q.Index, q.PK, q.Range = table.Due, rapid.SampledFrom([]string{"d", "e"}).Draw(t, "due"), table.Range{}
				}
				var got []string
				for item, err := range table.All(ctx, tbl, q) {
					require.NoError(t, err)
					k, place := item.Key(), item.Key()
					if q.Index != "" {
						place, _ = item.Entry(q.Index)
					} else {
						require.Equal(t, want[k], item)
					}
					got = append(got, place.SK+"\x00"+k.PK+"\x00"+k.SK)
				}
				require.Equal(t, want.query(q), got)
			},
			"fold": func(t *rapid.T) { require.NoError(t, db.Sync()) },
			"evict": func(t *rapid.T) {
				tbl.memory.budget = rapid.SampledFrom([]int{1, 3000, memoryBudget}).Draw(t, "budget")
			},
			"restart": func(t *rapid.T) {
				require.NoError(t, db.Close())
				open()
			},
		})
	})
}

// TestReadersSeeOneMoment moves items about in an index while it is folded all
// the time: a query shows each item once, and no item in a state it never had.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	const items, moves = 20, 60
	for _, budget := range []int{1, memoryBudget} {
		t.Run(fmt.Sprint("budget=", budget), func(t *testing.T) {
			t.Parallel()
			_, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Nanosecond})
			tbl.memory.budget = budget
			put := func(i, n int) error {
				return tbl.Put(t.Context(), table.Put{Item: table.Item{"pk": table.V("p"), "sk": table.V(fmt.Sprint(i)), "n": table.V(n),
					"due_pk": table.V("d"), "due_sk": table.V(fmt.Sprintf("%06d", (n*7919+i)%100_000))}})
			}
			for i := range items {
				require.NoError(t, put(i, 0))
			}
			var writers, readers sync.WaitGroup
			stop := make(chan struct{})
			for w := range 4 {
				writers.Go(func() {
					for n := range moves {
						for i := w; i < items; i += 4 {
							assert.NoError(t, put(i, n))
						}
					}
				})
			}
			for _, index := range []table.Index{"", table.Due} {
				readers.Go(func() {
					for last := map[string]int64{}; ; {
						q := table.Query{Index: index, PK: "p"}
						if index != "" {
							q.PK = "d"
						}
						page, err := tbl.Query(t.Context(), q)
						assert.NoError(t, err)
						seen := map[string]bool{}
						for _, item := range page.Items {
							seen[item.Key().SK] = true
							if index == "" {
								assert.GreaterOrEqual(t, item["n"].Int(), last[item.Key().SK], "it went back")
								last[item.Key().SK] = item["n"].Int()
							}
						}
						if !assert.Len(t, page.Items, items) || !assert.Len(t, seen, items) {
							return
						}
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			readers.Go(func() {
				for last := int64(0); ; {
					item, err := tbl.Get(t.Context(), table.Key{PK: "p", SK: "0"})
					assert.NoError(t, err)
					assert.GreaterOrEqual(t, item["n"].Int(), last, "it went back")
					last = item["n"].Int()
					select {
					case <-stop:
						return
					default:
					}
				}
			})
			writers.Wait()
			close(stop)
			readers.Wait()
		})
	}
}

// TestMemoryIsBounded keeps what was read and written within the budget.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	db, tbl := openWith(t, filepath.Join(t.TempDir(), "store.db"), store.Options{FoldAfter: time.Hour})
	tbl.memory.budget = 256 << 10
	body := table.V(strings.Repeat("x", 1000))
	for i := range 1000 {
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: table.Item{"pk": table.V(fmt.Sprint("p", i)), "sk": table.V("s"), "body": body}}))
	}
	require.NoError(t, db.Sync())
	assert.LessOrEqual(t, tbl.memory.bytes, tbl.memory.budget)
	for range 3 {
		for i := range 1000 {
			_, err := tbl.Get(t.Context(), table.Key{PK: fmt.Sprint("p", i), SK: "s"})
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, tbl.memory.bytes, 2*tbl.memory.budget, "reads alone do not fill it")
	}
	size := 0
	for _, p := range tbl.memory.parts {
		size += 200 + len(p.pk)
		for sk, r := range p.rows {
			size += cost(sk, r.item, r.size)
		}
	}
	assert.Equal(t, size, tbl.memory.bytes, "the estimate is kept up")
}
