package runlog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// late makes the log of 60 lines an archive while another process still holds
// lines from 61 to n, and returns that process.
func (w *world) late(n, size int) *runlog.Store {
	w.t.Helper()
	w.fill(w.store(), run, 60, 2, size)
	other := w.store()
	for i := 61; i <= n; i++ {
		other.Append(org, run, line("w", i, size))
	}
	require.NoError(w.t, w.store().Archive(w.t.Context(), org, run))
	time.Sleep(time.Millisecond) // ids of one are in no order
	return other
}

// archived holds that the archive has the lines 1 to n and that nothing else is
// left of the log.
func (w *world) archived(n int) {
	w.t.Helper()
	got, page := w.read(w.store(), run, true, "", 25)
	assert.Equal(w.t, lines(n), got)
	assert.Equal(w.t, runlog.Archive, page.Source)
	assert.Zero(w.t, w.batches(run))
	for _, key := range w.objects(run) {
		assert.NotContains(w.t, key, "/log/", "no batch is left")
	}
}

// TestEventsAfterArchive holds that what is written after the archive stands
// becomes part of it, whoever writes it.
func TestEventsAfterArchive(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000, 6000} {
		for _, after := range []time.Duration{0, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				other := w.late(70, size)
				time.Sleep(after) // by itself, if nobody flushes
				require.NoError(t, other.Flush(t.Context(), org, run))
				w.archived(70)
				assert.LessOrEqual(t, len(w.objects(run)), 1, "the archive before is gone")

				for i := 71; i <= 80; i++ {
					other.Append(org, run, line("w", i, size))
					require.NoError(t, other.Flush(t.Context(), org, run))
				}
				require.NoError(t, w.store().Archive(t.Context(), org, run))
				w.archived(80)
			})
		}
	}
}

// TestFlushFailsUntilTheArchiveStands: what could not be stored in time becomes
// part of the archive when it can.
func TestFlushFailsUntilTheArchiveStands(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.fill(w.store(), run, 60, 2, 10)
			time.Sleep(time.Millisecond)
			other := w.store()
			other.Append(org, run, line("w", 61, 10))
			w.table.set(func(context.Context, int, string) (error, error) {
				if done {
					return nil, errFault
				}
				return errFault, nil
			})
			require.ErrorIs(t, other.Flush(t.Context(), org, run), errFault)
			w.table.set(nil)
			require.NoError(t, w.store().Archive(t.Context(), org, run))
			time.Sleep(time.Minute) // by itself
			w.archived(61)
		})
	}
}

// TestBatchWhileTheArchiveIsWritten stores a batch after the archive's maker
// has read the batches, and has its writer look for the archive before it is
// written.
func TestBatchWhileTheArchiveIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(w.store(), run, 60, 2, 3000)
		time.Sleep(time.Millisecond)
		w.blob.onPut = func(string) {
			w.blob.onPut = nil
			other := w.store()
			other.Append(org, run, line("w", 61, 10))
			require.NoError(t, other.Flush(t.Context(), org, run))
		}
		require.NoError(t, w.store().Archive(t.Context(), org, run))
		w.archived(61)
	})
}

// TestMergeAfterCrash crashes a merge at every write, before and after it is
// done: the next Archive completes it, and nothing is lost, twice or left.
func TestMergeAfterCrash(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000, 6000} {
		for _, done := range []bool{false, true} {
			for at, fired := 1, true; fired; at++ {
				fired = false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					other := w.late(70, size)
					dead := false
					w.table.set(func(_ context.Context, n int, _ string) (error, error) {
						switch {
						case dead || n == at && !done:
							dead, fired = true, true
							return errFault, nil
						case n == at:
							dead, fired = true, true
							return nil, errFault
						}
						return nil, nil
					})
					err := other.Flush(t.Context(), org, run)
					assert.Equal(t, fired, err != nil)
					w.table.set(nil)
					stored := w.batches(run) > 0 || !fired
					if err != nil {
						require.NoError(t, w.store().Archive(t.Context(), org, run), "in another process")
						got, _ := w.read(w.store(), run, true, "", 25)
						if stored {
							assert.Equal(t, lines(70), got)
						} else {
							assert.Contains(t, [][]string{lines(60), lines(70)}, got)
						}
						assert.Zero(t, w.batches(run))
						require.NoError(t, other.Flush(t.Context(), org, run), "if it lives after all")
					}
					w.archived(70)
					assert.LessOrEqual(t, len(w.objects(run)), 2, "at most the object that none names yet is left")
				})
			}
		}
	}
}

// TestMergersAtOnce has processes flush late lines at the same time.
func TestMergersAtOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.table.set(func(_ context.Context, n int, _ string) (error, error) {
				time.Sleep(time.Duration(n*7919%50) * time.Millisecond)
				return nil, nil
			})
			const writers, events = 8, 10
			var all sync.WaitGroup
			for i := range writers {
				s := w.store()
				all.Go(func() {
					for n := 1; n <= events; n++ {
						s.Append(org, run, line(fmt.Sprint("w", i), n, size))
						if i == 0 && n == events/2 {
							assert.NoError(t, s.Archive(t.Context(), org, run))
							continue
						}
						assert.NoError(t, s.Flush(t.Context(), org, run))
					}
				})
			}
			all.Wait()
			got, _ := w.read(w.store(), run, true, "", 25)
			for i := range writers {
				w.has(got, fmt.Sprint("w", i), events)
			}
			assert.Len(t, got, writers*events)
			assert.Zero(t, w.batches(run))
			assert.LessOrEqual(t, len(w.objects(run)), 1)
		})
	}
}

// TestCursorsOutliveAMerge: whoever reads an archive gets each line that was in
// it when the reading began once, though it is replaced meanwhile by one with
// lines in other places.
func TestCursorsOutliveAMerge(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000} {
		for at := range 12 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				slow := w.storeAt(-5 * time.Second) // its ids come among the earlier ones
				for i := range 10 {
					slow.Append(org, run, line("slow", i+1, size))
				}
				w.fill(w.store(), run, 60, 2, size)
				time.Sleep(3 * time.Second)
				for i := 61; i <= 120; i++ {
					w.table.set(nil)
					s := w.store()
					s.Append(org, run, line("w", i, size))
					require.NoError(t, s.Flush(t.Context(), org, run))
					time.Sleep(100 * time.Millisecond)
				}
				require.NoError(t, w.store().Archive(t.Context(), org, run))
				reader, cursor := w.store(), table.Cursor("")
				var got []string
				for page := 0; page == 0 || cursor != ""; page++ {
					if page == at {
						require.NoError(t, slow.Flush(t.Context(), org, run))
					}
					p, err := reader.Page(t.Context(), org, run, true, cursor, 11)
					require.NoError(t, err)
					for _, raw := range p.Events {
						got = append(got, name(t, raw))
					}
					cursor = p.Next
				}
				w.has(got, "w", 120)
				if at == 0 {
					w.has(got, "slow", 10)
				}
				if at < 10 {
					all, _ := w.read(reader, run, true, "", 7)
					w.has(all, "w", 120)
					w.has(all, "slow", 10)
				}
			})
		}
	}
}

// TestPageOfAReplacedArchive replaces the archive between the read of its head
// and that of its object.
func TestPageOfAReplacedArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.late(70, 3000)
		w.blob.onGet = func(string) {
			w.blob.onGet = nil
			require.NoError(t, other.Flush(t.Context(), org, run))
		}
		got, _ := w.read(w.store(), run, true, "", 25)
		assert.Equal(t, lines(70), got)
	})
}

// TestManyLateBatches has more batches come late than a merge takes at a time,
// and more than are remembered while the first archive is made.
func TestManyLateBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		require.NoError(t, w.store().Archive(t.Context(), org, run))
		w.table.blind = runstate.ArchiveKey(org, run) // a writer who stopped before it looked
		w.fill(w.store(), run, 2500, 1, 1)
		w.table.blind = table.Key{}
		assert.Equal(t, 2500, w.batches(run))
		require.NoError(t, w.store().Archive(t.Context(), org, run))
		w.archived(2500)
	})
}

// TestRequestsOfAShortRun counts what the log of a short run costs: one look for
// its head, one for batches before the archive is written, the write, and one
// look for batches that came meanwhile.
func TestRequestsOfAShortRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		s.Append(org, run, line("w", 1, 10))
		var meter table.Meter
		require.NoError(t, s.Archive(table.WithMeter(t.Context(), &meter), org, run))
		used, requests := meter.Usage(), 0
		for _, n := range used.Requests {
			requests += n
		}
		assert.Equal(t, 4, requests)
		assert.Equal(t, table.Units{Read: 3, Write: 1}, used.Total())
	})
}
