package pebbletable_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/require"
)

// task is an item of about 600 bytes, like a run's tasks.
type task struct {
	table.Key
	State   string `table:"state"`
	Attempt int    `table:"attempt"`
	Started int64  `table:"started"`
	Owner   string `table:"owner,omitempty"`
	Waits   []int  `table:"waits,set"`
	Detail  string `table:"detail"`
	table.DueEntry
}

func newTask(run, n int) task {
	return task{
		Key:   table.Key{PK: fmt.Sprintf("w#acme#run#%08d", run), SK: fmt.Sprintf("task#%05d", n)},
		State: "QUEUED", Started: 1700000000000, Waits: []int{1, 2, 3},
		Detail: strings.Repeat("x", 480),
	}
}

func open(tb testing.TB) *pebbletable.Table {
	tb.Helper()
	db, err := store.Open(filepath.Join(tb.TempDir(), "store"), store.Options{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return pebbletable.New(db, clock.System{})
}

// step runs a transaction as the engine does: two items of 600 bytes are read,
// checked and written.
func step(ctx context.Context, t *pebbletable.Table, run, attempt int) error {
	a, b := newTask(run, 0), newTask(run, 1)
	return t.Transact(ctx,
		table.Update{Key: a.Key, If: table.Eq("attempt", attempt), Do: []table.Action{
			table.Set("attempt", attempt+1), table.Set("owner", "w-7f3a"), table.Set("state", "RUNNING")}},
		table.Update{Key: b.Key, If: table.Eq("attempt", attempt), Do: []table.Action{
			table.Set("attempt", attempt+1), table.Set("owner", "w-7f3a"), table.Set("state", "RUNNING")}})
}

func BenchmarkTransact(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			t := open(b)
			ctx := context.Background()
			const runs = 1000
			for run := range runs {
				require.NoError(b, t.BatchWrite(ctx, []table.Write{
					table.Put{Item: newTask(run, 0)}, table.Put{Item: newTask(run, 1)}}))
			}
			b.ReportAllocs()
			if writers == 1 {
				n := 0
				for b.Loop() {
					if err := step(ctx, t, n%runs, n/runs); err != nil {
						b.Fatal(err)
					}
					n++
				}
			} else {
				var next atomic.Int64
				attempts := make([]atomic.Int64, runs)
				b.SetParallelism(writers / 2)
				b.RunParallel(func(pb *testing.PB) {
					offset := int(next.Add(1))
					for n := offset; pb.Next(); n += writers {
						run := n % runs
						attempt := attempts[run].Load()
						if err := step(ctx, t, run, int(attempt)); err == nil {
							attempts[run].CompareAndSwap(attempt, attempt+1)
						}
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
		})
	}
}

func BenchmarkPut(b *testing.B) {
	t := open(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Put(b.Context(), table.Put{Item: newTask(n%1000, 0)}); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkGet(b *testing.B) {
	t := open(b)
	require.NoError(b, t.Put(b.Context(), table.Put{Item: newTask(1, 1)}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Get(b.Context(), newTask(1, 1).Key); err != nil {
			b.Fatal(err)
		}
	}
}
