package runlog_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
)

// TestFollowSkewedClocks checks that a follower gets each event once while the
// log is live, although the clocks of writers and readers differ by seconds and
// the log is spread over partitions.
func TestFollowSkewedClocks(t *testing.T) {
	t.Parallel()
	skews := []time.Duration{0, -5 * time.Second, 5 * time.Second, -2500 * time.Millisecond}
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			random := rand.New(rand.NewPCG(seed, 2))
			var dice sync.Mutex
			roll := func(n int) int { dice.Lock(); defer dice.Unlock(); return random.IntN(n) }
			if seed%2 == 1 {
				w.crowd(false)
				s := w.store()
				s.Append(org, run, line("first", 1, 10))
				_ = s.Flush(t.Context(), org, run)
				w.table.onPut = nil
				require.NoError(t, s.Flush(t.Context(), org, run))
			}
			const events = 150
			var all sync.WaitGroup
			for i, skew := range skews {
				s := w.storeAt(skew)
				all.Go(func() {
					for n := 1; n <= events; n++ {
						s.Append(org, run, line(fmt.Sprint("w", i), n, 10))
						if roll(3) == 0 {
							time.Sleep(time.Duration(roll(700)) * time.Millisecond)
						}
					}
					assert.NoError(t, s.Flush(t.Context(), org, run))
				})
			}
			stop := make(chan struct{})
			go func() {
				all.Wait()
				time.Sleep(20 * time.Second) // the followers have all of it by then
				close(stop)
			}()
			// Half of the difference is that of the readers.
			readers := []*runlog.Store{w.storeAt(0), w.storeAt(-2 * time.Second), w.storeAt(2 * time.Second)}
			var got []string
			largest := 0
			for from, live := table.Cursor(""), true; live; {
				select {
				case <-stop:
					live = false
				case <-time.After(time.Duration(roll(900)) * time.Millisecond):
				}
				page, err := readers[roll(len(readers))].Page(t.Context(), org, run, false, from, 1+roll(50))
				require.NoError(t, err)
				for _, raw := range page.Events {
					got = append(got, name(t, raw))
				}
				from, largest = page.Next, max(largest, len(page.Next))
			}
			for i := range skews {
				w.has(got, fmt.Sprint("w", i), events)
			}
			assert.LessOrEqual(t, largest, 2500)
		})
	}
}

// TestFollowLateBatch shows a batch that sorts among those shown before, in
// parts, and continues after it.
func TestFollowLateBatch(t *testing.T) {
	t.Parallel()
	for limit := 1; limit <= 12; limit++ {
		for _, archive := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				slow, s := w.storeAt(-4*time.Second), w.store()
				for n := 1; n <= 20; n++ {
					s.Append(org, run, line("w", n, 10))
					if n%4 == 0 {
						require.NoError(t, s.Flush(t.Context(), org, run))
						time.Sleep(time.Second)
					}
				}
				got, page := w.read(s, run, false, "", limit)
				assert.Equal(t, lines(20), got)
				for n := 1; n <= 10; n++ {
					slow.Append(org, run, line("slow", n, 10))
				}
				require.NoError(t, slow.Flush(t.Context(), org, run))
				first, err := s.Page(t.Context(), org, run, false, page.Next, min(limit, 9))
				require.NoError(t, err)
				for _, raw := range first.Events {
					got = append(got, name(t, raw))
				}
				for n := 21; n <= 30; n++ {
					s.Append(org, run, line("w", n, 10))
				}
				if archive {
					require.NoError(t, s.Archive(t.Context(), org, run))
				} else {
					require.NoError(t, s.Flush(t.Context(), org, run))
					settled()
				}
				rest, _ := w.read(w.store(), run, archive, first.Next, limit)
				got = append(got, rest...)
				w.has(got, "w", 30)
				w.has(got, "slow", 10)
				assert.Len(t, got, 40)
			})
		}
	}
}

// TestFollowManyBatches: if a log has more batches than a cursor can list, all
// are shown eventually, and once.
func TestFollowManyBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 2000
		over := make(chan struct{})
		go func() {
			defer close(over)
			s := w.store()
			for i := 1; i <= n; i++ {
				s.Append(org, run, line("w", i, 10))
				assert.NoError(t, s.Flush(t.Context(), org, run))
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(12 * time.Second)
		}()
		var got []string
		largest := 0
		reader := w.store()
		for from, live := table.Cursor(""), true; live; {
			select {
			case <-over:
				live = false
			case <-time.After(300 * time.Millisecond):
			}
			page, err := reader.Page(t.Context(), org, run, false, from, runlog.MaxLimit)
			require.NoError(t, err)
			for _, raw := range page.Events {
				got = append(got, name(t, raw))
			}
			from, largest = page.Next, max(largest, len(page.Next))
		}
		w.has(got, "w", n)
		assert.Less(t, largest, 2500)
		assert.Greater(t, largest, 1000, "the bound is met")
	})
}
