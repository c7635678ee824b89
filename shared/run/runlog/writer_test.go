package runlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
)

// putTwice repeats each write, as a client does whose answer was lost.
type putTwice struct{ table.Table }

func (t *putTwice) Put(ctx context.Context, p table.Put) error {
	if err := t.Table.Put(ctx, p); err != nil {
		return err
	}
	return t.Table.Put(ctx, p)
}

func TestFlushInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		for i := 1; i <= 5; i++ {
			s.Append(org, run, line("w", i, 10))
		}
		synctest.Wait()
		assert.Zero(t, w.batches(run))
		time.Sleep(runlog.FlushInterval)
		synctest.Wait()
		assert.Equal(t, 1, w.batches(run), "one batch of all")
		s.Append(org, run, line("w", 6, runlog.BatchBytes))
		synctest.Wait()
		assert.Equal(t, 2, w.batches(run), "a large batch does not wait")
		assert.Len(t, w.objects(run), 1)
		s.Append(org, run)
		require.NoError(t, s.Flush(t.Context(), org, run))
		require.NoError(t, s.Flush(t.Context(), org, "01NOBODY"))
		settled()
		got, _ := w.read(s, run, false, "", 100)
		assert.Equal(t, lines(6), got)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		for _, id := range []string{"01A", "01B", "01C"} {
			s.Append(org, id, line("w", 1, 10))
		}
		require.NoError(t, s.Close(t.Context()))
		for _, id := range []string{"01A", "01B", "01C"} {
			assert.Equal(t, 1, w.batches(id))
		}
		require.NoError(t, s.Close(t.Context()))
	})
}

// TestFailedWriteIsKept holds that events outlive a store that takes nothing
// for a while, in order and once.
func TestFailedWriteIsKept(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := w.store()
			w.table.set(func(_ context.Context, _ int, what string) (error, error) {
				if done && what == "put" {
					return nil, errFault
				}
				return errFault, nil
			})
			s.Append(org, run, line("w", 1, 10), line("w", 2, 10))
			require.ErrorIs(t, s.Flush(t.Context(), org, run), errFault)
			s.Append(org, run, line("w", 3, 10))
			require.ErrorIs(t, s.Archive(t.Context(), org, run), errFault)
			require.ErrorIs(t, s.Close(t.Context()), errFault)
			w.table.set(nil)
			time.Sleep(time.Minute) // by itself
			got, _ := w.read(s, run, false, "", 100)
			assert.Equal(t, lines(3), got)
		})
	}
}

// TestLargeAppend holds that no batch grows past what readers take.
func TestLargeAppend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		events := make([]runlog.Event, 60)
		for i := range events {
			events[i] = line("w", i+1, 0)
			events[i].Message = strings.Repeat("\x01", runlog.MaxLine) // six bytes each, as JSON
		}
		s.Append(org, run, events...)
		require.NoError(t, s.Flush(t.Context(), org, run))
		assert.Equal(t, 60, w.batches(run))
		require.NoError(t, s.Archive(t.Context(), org, run))
		got, _ := w.read(s, run, true, "", 100)
		assert.Equal(t, lines(60), got)
	})
}

// TestBacklog holds that a run that writes faster than the store takes waits,
// and that a store that takes nothing costs no more than the backlog.
func TestBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		slow := 200 * time.Millisecond
		w.table.set(func(_ context.Context, _ int, what string) (error, error) {
			time.Sleep(slow)
			return nil, nil
		})
		start := time.Now()
		const n = 400
		for i := 1; i <= n; i++ {
			s.Append(org, run, line("w", i, 60<<10))
		}
		assert.Greater(t, time.Since(start), time.Second, "24 MB do not fit the backlog")
		require.NoError(t, s.Flush(t.Context(), org, run))
		settled()
		got, _ := w.read(s, run, false, "", 100)
		assert.Equal(t, lines(n), got)

		w.table.set(func(context.Context, int, string) (error, error) { return errFault, nil })
		for i := 1; i <= n; i++ {
			s.Append(org, "01DOWN", line("w", i, 60<<10))
		}
		w.table.set(nil)
		s.Append(org, "01DOWN", line("w", n+1, 10))
		require.NoError(t, s.Flush(t.Context(), org, "01DOWN"))
		settled()
		page, err := s.Page(t.Context(), org, "01DOWN", false, "", runlog.MaxLimit)
		require.NoError(t, err)
		assert.NotEmpty(t, page.Events, "what was queued is kept")
		assert.Less(t, len(page.Events), 100, "the rest was dropped")
		rest, err := s.Page(t.Context(), org, "01DOWN", false, page.Next, runlog.MaxLimit)
		require.NoError(t, err)
		all := append(page.Events, rest.Events...)
		var last struct{ Message string }
		require.NoError(t, json.Unmarshal(all[len(all)-1], &last))
		assert.Contains(t, last.Message, "events are missing here")
	})
}

func TestCutMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		e := line("w", 1, 0)
		e.Message = strings.Repeat("é", runlog.MaxLine) + "\n\x00\xff<&>"
		s.Append(org, run, e, runlog.Event{Message: "a\nb\xff<&>"})
		require.NoError(t, s.Flush(t.Context(), org, run))
		settled()
		page, err := s.Page(t.Context(), org, run, false, "", 10)
		require.NoError(t, err)
		require.Len(t, page.Events, 2)
		var got struct{ Message, Timestamp string }
		require.NoError(t, json.Unmarshal(page.Events[0], &got))
		assert.Contains(t, got.Message, "bytes cut")
		assert.NotContains(t, got.Message, "\ufffd")
		assert.LessOrEqual(t, len(got.Message), runlog.MaxLine+40)
		assert.NotEmpty(t, got.Timestamp)
		require.NoError(t, json.Unmarshal(page.Events[1], &got))
		assert.Equal(t, "a\nb\ufffd<&>", got.Message)
		assert.Contains(t, string(page.Events[1]), "<&>")
	})
}

// TestMemoryOfAllRuns holds that the runs of a process share a bound, that what
// is beyond it is dropped with a word in each log, and nothing else.
func TestMemoryOfAllRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.table.set(func(context.Context, int, string) (error, error) { return errFault, nil })
		const runs, n, size = 100, 30, 60 << 10 // 180 MB, less than 2 MB each
		id := func(i int) string { return fmt.Sprintf("01RUN%03d", i) }
		for i := 1; i <= n; i++ {
			for r := range runs {
				s.Append(org, id(r), line("w", i, size))
			}
		}
		w.table.set(nil)
		require.NoError(t, s.Close(t.Context()))
		kept := 0
		for r := range runs {
			require.NoError(t, s.Archive(t.Context(), org, id(r)))
			page, err := s.Page(t.Context(), org, id(r), true, "", runlog.MaxLimit)
			require.NoError(t, err)
			all, missing := 0, 0
			for _, raw := range page.Events {
				var e struct{ Message string }
				require.NoError(t, json.Unmarshal(raw, &e))
				if _, err := fmt.Sscanf(e.Message, "%d events are missing", &missing); err != nil {
					all++
				}
			}
			assert.Equal(t, n, all+missing, "of run %d", r)
			kept += all
		}
		assert.LessOrEqual(t, kept*size, 65<<20)
		assert.GreaterOrEqual(t, kept*size, 60<<20)
		s.Append(org, id(0), line("w", n+1, 10))
		synctest.Wait()
		assert.Zero(t, w.batches(id(0)), "there is room again")
	})
}
