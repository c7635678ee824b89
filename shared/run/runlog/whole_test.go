package runlog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
)

// TestWholeLogIsArchivedWithoutRead archives a log that a sole process has in
// memory from the beginning: that is one write. If anything of the log was
// stored before, or after the run began, all of it is read.
func TestWholeLogIsArchivedWithoutRead(t *testing.T) {
	t.Parallel()
	type process struct {
		*runlog.Store
		other *runlog.Store // of another process
		began func()
	}
	type step func(t *testing.T, p *process)
	two := func(t *testing.T, s *runlog.Store) {
		for i := 1; i <= 2; i++ {
			s.Append(org, run, line("w", i, 10))
		}
		require.NoError(t, s.Flush(t.Context(), org, run))
	}
	stored := func(t *testing.T, p *process) { two(t, p.Store) }
	elsewhere := func(t *testing.T, p *process) {
		two(t, p.other)
		time.Sleep(time.Millisecond) // the bubble's time: batches of two processes are not ordered within an instant
	}
	begin := func(_ *testing.T, p *process) { p.began = p.Begin(org, run) }
	begun := func(_ *testing.T, p *process) { p.began() }
	alone := func(_ *testing.T, p *process) { p.Exclusive = true }
	for name, c := range map[string]struct {
		steps []step
		whole bool
	}{
		"alone":                       {[]step{alone, begin, begun}, true},
		"one of several":              {[]step{begin, elsewhere, begun}, false},
		"not begun here":              {[]step{alone, stored}, false},
		"stored by another meanwhile": {[]step{alone, begin, stored, begun}, false},
		"stored after it began":       {[]step{alone, begin, begun, stored}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s, first := &process{Store: w.store(), other: w.store()}, 3
				for _, do := range c.steps {
					do(t, s)
				}
				if c.whole {
					first = 1
				}
				for i := first; i <= 5; i++ {
					s.Append(org, run, line("w", i, 10))
				}
				var meter table.Meter
				require.NoError(t, s.Archive(table.WithMeter(t.Context(), &meter), org, run))
				if c.whole {
					assert.Equal(t, map[table.Operation]int{table.OpPut: 1}, meter.Usage().Requests)
				}
				got, page := w.read(w.store(), run, true, "", 25)
				assert.Equal(t, lines(5), got)
				assert.Equal(t, runlog.Archive, page.Source)
				assert.Zero(t, w.batches(run), "no batch is left")

				// Late events become part of it, as of any archive.
				s.Append(org, run, line("w", 6, 10))
				require.NoError(t, s.Flush(t.Context(), org, run))
				got, _ = w.read(w.store(), run, true, "", 25)
				assert.Equal(t, lines(6), got)
				assert.Zero(t, w.batches(run), "no batch is left")
			})
		})
	}
}

// TestWholeLogArchivedByAnotherProcess checks that an existing archive is kept
// if the process was not the only one after all.
func TestWholeLogArchivedByAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, other := w.store(), w.store()
		s.Exclusive = true
		s.Begin(org, run)()
		other.Append(org, run, line("w", 1, 10))
		require.NoError(t, other.Archive(t.Context(), org, run))
		s.Append(org, run, line("w", 2, 10))
		require.NoError(t, s.Archive(t.Context(), org, run))
		got, _ := w.read(w.store(), run, true, "", 25)
		assert.ElementsMatch(t, lines(2), got)
	})
}

// TestLogStoredInPart lets a flush store some of a log's batches and then fail:
// the others stay in memory, and the archive has all of them.
func TestLogStoredInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		s.Exclusive = true
		s.Begin(org, run)()
		down := errors.New("down")
		w.table.set(func(_ context.Context, n int, _ string) (before, after error) {
			if n > 2 { // the first batch is an object and an item
				before = down
			}
			return before, nil
		})
		const n = 12 // 720 KB, which are several batches
		for i := 1; i <= n; i++ {
			s.Append(org, run, line("w", i, 60_000))
		}
		require.ErrorIs(t, s.Flush(t.Context(), org, run), down)
		w.table.set(nil)
		assert.Equal(t, 1, w.batches(run))
		require.NoError(t, s.Archive(t.Context(), org, run))
		got, page := w.read(w.store(), run, true, "", 25)
		assert.Equal(t, lines(n), got)
		assert.Equal(t, runlog.Archive, page.Source)
	})
}
