package runlog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// crowd has the first partition of a run's log refuse batches. done says that it
// does take them, and that only its answers are lost.
func (w *world) crowd(done bool) {
	first := runstate.LogPartition(org, run)
	w.table.onPut = func(key table.Key) (error, error) {
		switch {
		case key.PK != first:
			return nil, nil
		case done:
			return nil, context.DeadlineExceeded
		}
		return table.ErrThrottled, nil
	}
}

// TestCrowdedPartition holds that a log whose partition takes no more goes on in
// others, that all readers find them, and that the archive has each line once.
func TestCrowdedPartition(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for _, size := range []int{10, 6000} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				const writers, events = 48, 6
				var stores []*runlog.Store
				for range writers {
					stores = append(stores, w.store())
				}
				for i, s := range stores {
					s.Append(org, run, line(fmt.Sprint("w", i), 1, size))
					require.NoError(t, s.Flush(t.Context(), org, run))
				}
				assert.Equal(t, []int{writers, 0, 0, 0}, w.spread(run), "one partition as long as it does")
				w.crowd(done)
				for n := 2; n <= events; n++ {
					if n == 4 {
						w.table.onPut = nil
					}
					for i, s := range stores {
						s.Append(org, run, line(fmt.Sprint("w", i), n, size))
						if s.Flush(t.Context(), org, run) != nil {
							time.Sleep(time.Second) // its place is the first partition, still
						}
					}
				}
				for _, s := range stores {
					require.NoError(t, s.Flush(t.Context(), org, run))
				}
				for shard, n := range w.spread(run) {
					assert.Positive(t, n, "partition %d", shard)
				}
				settled()
				reader := w.store()
				follow := func(ended bool) {
					got, _ := w.read(reader, run, ended, "", 7)
					assert.Len(t, got, writers*events)
					for i := range writers {
						w.has(got, fmt.Sprint("w", i), events)
					}
				}
				follow(false)
				require.NoError(t, w.store().Archive(t.Context(), org, run))
				follow(true)
				head, err := w.table.Get(t.Context(), runstate.ArchiveKey(org, run))
				require.NoError(t, err)
				assert.EqualValues(t, writers*events, head["n"].Int(), "what a reader passes over is not there either")
				assert.Zero(t, w.batches(run))
				for _, key := range w.objects(run) {
					assert.NotContains(t, key, "/log/")
				}
			})
		}
	}
}

// TestSpreadWhileTheArchiveIsWritten spreads the log after the archive's maker
// read where the batches are.
func TestSpreadWhileTheArchiveIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(w.store(), run, 60, 2, 3000)
		time.Sleep(time.Millisecond)
		var others []*runlog.Store
		w.blob.onPut = func(string) {
			w.blob.onPut = nil
			w.crowd(false)
			for i := range 8 {
				s := w.store()
				s.Append(org, run, line(fmt.Sprint("other", i), 1, 10))
				_ = s.Flush(t.Context(), org, run)
				others = append(others, s)
			}
			w.table.onPut = nil
		}
		require.NoError(t, w.store().Archive(t.Context(), org, run))
		for _, s := range others {
			require.NoError(t, s.Flush(t.Context(), org, run))
		}
		got, _ := w.read(w.store(), run, true, "", 25)
		w.has(got, "w", 60)
		for i := range others {
			w.has(got, fmt.Sprint("other", i), 1)
		}
		assert.Zero(t, w.batches(run))
	})
}

// TestSpreadAfterTheArchive spreads the log when the archive stands.
func TestSpreadAfterTheArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.late(61, 10)
		w.crowd(false)
		for other.Flush(t.Context(), org, run) != nil {
			time.Sleep(time.Second)
			w.table.onPut = nil
		}
		w.archived(61)
	})
}
