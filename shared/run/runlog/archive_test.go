package runlog_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// TestArchiveAfterCrash crashes Archive before and after every write. The next
// process completes it, and nothing is lost or left over.
func TestArchiveAfterCrash(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 3000} {
		for _, done := range []bool{false, true} {
			for at, fired := 1, true; fired; at++ {
				fired = false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.fill(w.store(), run, 60, 2, size)
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
					err := w.store().Archive(t.Context(), org, run)
					assert.Equal(t, fired, err != nil)
					w.table.set(nil)
					require.NoError(t, w.store().Archive(t.Context(), org, run))
					got, page := w.read(w.store(), run, true, "", 25)
					assert.Equal(t, lines(60), got)
					assert.Equal(t, runlog.Archive, page.Source)
					assert.Zero(t, w.batches(run))
					for _, key := range w.objects(run) {
						assert.NotContains(t, key, "/log/", "no batch is left")
					}
				})
			}
		}
	}
}

// TestConcurrentArchives lets one process archive the whole log while another
// is about to store its own archive.
func TestConcurrentArchives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(w.store(), run, 60, 2, 3000)
		w.blob.onPut = func(string) {
			w.blob.onPut = nil
			require.NoError(t, w.store().Archive(t.Context(), org, run))
		}
		require.NoError(t, w.store().Archive(t.Context(), org, run))
		got, _ := w.read(w.store(), run, true, "", 25)
		assert.Equal(t, lines(60), got)
		assert.Len(t, w.objects(run), 1, "the second archive's object is gone")
	})
}

// TestArchiveResponseLost: the item was written, but a retry of the driver
// finds it and reports a failed condition. Its objects must be kept.
func TestArchiveResponseLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(w.store(), run, 60, 2, 3000)
		twice := w.store()
		twice.Table = &putTwice{w.table}
		require.NoError(t, twice.Archive(t.Context(), org, run))
		got, _ := w.read(w.store(), run, true, "", 25)
		assert.Equal(t, lines(60), got)
	})
}

// TestArchiveIsPlainGzip checks that the archive's object can be read by any
// program.
func TestArchiveIsPlainGzip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.fill(s, run, 3000, 500, 400)
		require.NoError(t, s.Archive(t.Context(), org, run))
		keys := w.objects(run)
		require.Len(t, keys, 1)
		raw, _, err := blob.GetBytes(t.Context(), w.blob, keys[0], 1<<30)
		require.NoError(t, err)
		gz, err := gzip.NewReader(bytes.NewReader(raw))
		require.NoError(t, err)
		text, err := io.ReadAll(gz)
		require.NoError(t, err)
		assert.Equal(t, 3000, bytes.Count(text, []byte{'\n'}))
		assert.True(t, strings.HasPrefix(string(text), `{"event_type":"log","message":"w 1 `))
	})
}

// TestManyBatches has more batches than a member counts and Archive remembers.
func TestManyBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		const n = 10_500
		w.fill(s, run, n, 1, 1)
		require.NoError(t, s.Archive(t.Context(), org, run))
		assert.Zero(t, w.batches(run))
		got, _ := w.read(s, run, true, "", 5000)
		assert.Equal(t, lines(n), got)
	})
}

// peak samples the heap while work runs, with little garbage.
func peak(work func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, most := m.HeapAlloc, m.HeapAlloc
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	work()
	close(stop)
	<-done
	return most - base
}

func bigLog(t testing.TB, n int) *runlog.Store {
	s := newWorld(t).store()
	events := make([]runlog.Event, 0, 500)
	for i := 1; i <= n; i++ {
		e := line("w", i, 0)
		e.Message = strings.Repeat(e.Message+" something happened to item ", 3)
		e.TaskRunID, e.Level, e.Logger, e.Attempt = runstate.TaskRunID(run, 3, 1), "info", "stdout", 1
		if events = append(events, e); len(events) == cap(events) || i == n {
			s.Append(org, run, events...)
			events = events[:0]
		}
	}
	require.NoError(t, s.Flush(context.Background(), org, run))
	return s
}

// TestLargeLog archives and reads 200,000 lines, 50 MB, in little memory.
func TestLargeLog(t *testing.T) {
	const n = 200_000
	s := bigLog(t, n)
	used := peak(func() { require.NoError(t, s.Archive(t.Context(), org, run)) })
	t.Logf("archiving took %d MB", used>>20)
	assert.Less(t, used, uint64(48<<20))
	seen := 0
	used = peak(func() {
		for from, more := table.Cursor(""), true; more; {
			page, err := s.Page(t.Context(), org, run, true, from, runlog.MaxLimit)
			require.NoError(t, err)
			for _, raw := range page.Events {
				seen++
				if seen%1000 == 0 {
					require.Equal(t, lines(seen)[seen-1], name(t, raw))
				}
			}
			from, more = page.Next, page.Next != ""
		}
	})
	assert.Equal(t, n, seen)
	t.Logf("paging took %d MB", used>>20)
	assert.Less(t, used, uint64(64<<20))
}

// BenchmarkArchive archives a log of a million lines, and reads pages of it.
func BenchmarkArchive(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		b.StopTimer()
		s := bigLog(b, n)
		b.StartTimer()
		used := peak(func() { require.NoError(b, s.Archive(context.Background(), org, run)) })
		b.ReportMetric(float64(used)/(1<<20), "peak-MB")
		b.StopTimer()
		start, pages := time.Now(), 0
		for from, more := table.Cursor(""), true; more; pages++ {
			page, err := s.Page(context.Background(), org, run, true, from, runlog.DefaultLimit)
			require.NoError(b, err)
			from, more = page.Next, page.Next != ""
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/float64(pages), "us/page")
		b.StartTimer()
	}
}
