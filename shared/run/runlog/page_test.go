package runlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
)

// TestFollow holds that one who follows a log while processes write to it over a
// slow and faulty table gets each event once, each writer's in order, through
// the switch to the archive; and that every token goes on right afterwards.
func TestFollow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			random := rand.New(rand.NewPCG(seed, 1))
			var dice sync.Mutex
			roll := func(n int) int { dice.Lock(); defer dice.Unlock(); return random.IntN(n) }
			w.table.set(func(ctx context.Context, _ int, what string) (error, error) {
				if what != "put" && what != "object" {
					return nil, nil
				}
				timer := time.NewTimer(time.Duration(roll(200)) * time.Millisecond)
				if roll(10) == 0 {
					timer.Reset(time.Duration(200+roll(2000)) * time.Millisecond)
				}
				select {
				case <-timer.C:
				case <-ctx.Done():
					if roll(2) == 0 {
						return ctx.Err(), nil // never came to be
					}
					return nil, ctx.Err() // done, but the answer is lost
				}
				if roll(10) == 0 {
					return nil, errFault
				}
				return nil, nil
			})
			const writers, events = 3, 120
			var all sync.WaitGroup
			var stores []*runlog.Store
			for i := range writers {
				s := w.store()
				stores = append(stores, s)
				all.Go(func() {
					for n := 1; n <= events; n++ {
						size := 10
						if roll(20) == 0 {
							size = 6 << 10 // a batch that is an object
						}
						s.Append(org, run, line(fmt.Sprint("w", i), n, size))
						if roll(4) == 0 {
							time.Sleep(time.Duration(roll(300)) * time.Millisecond)
						}
					}
				})
			}
			over := make(chan struct{})
			go func() {
				all.Wait()
				for _, s := range stores {
					for s.Flush(t.Context(), org, run) != nil {
					}
				}
				for stores[0].Archive(t.Context(), org, run) != nil {
				}
				close(over)
			}()
			reader, ended := w.store(), false
			var got []string
			tokens := map[table.Cursor]int{"": 0}
			for from := table.Cursor(""); ; {
				page, err := reader.Page(t.Context(), org, run, ended, from, 1+roll(50))
				require.NoError(t, err)
				for _, raw := range page.Events {
					got = append(got, name(t, raw))
				}
				if from = page.Next; from == "" {
					assert.Equal(t, runlog.Archive, page.Source)
					break
				}
				tokens[from] = len(got)
				select {
				case <-over:
					ended = true
				case <-time.After(time.Duration(roll(400)) * time.Millisecond):
				}
			}
			for i := range writers {
				w.has(got, fmt.Sprint("w", i), events)
			}
			for token, n := range tokens {
				rest, _ := w.read(reader, run, true, token, 100)
				// What was stored late stands where it belongs by now.
				for i := range writers {
					w.has(append(got[:n:n], rest...), fmt.Sprint("w", i), events)
				}
			}
		})
	}
}

// TestSameMillisecond holds the order of batches that the clock cannot tell apart.
func TestSameMillisecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.fill(s, run, 50, 1, 10)
		settled()
		got, _ := w.read(s, run, false, "", 7)
		assert.Equal(t, lines(50), got)
	})
}

// TestPageSeesArchiveMidway holds that a page has no hole when batches become
// the archive between two of its reads.
func TestPageSeesArchiveMidway(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		for at := 1; at <= 3; at++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.store()
				w.fill(s, run, 450, 2, 3000) // 225 batches, objects among them
				settled()
				queries := 0
				w.table.onQuery = func(table.Query) {
					if queries++; queries == at {
						w.table.onQuery = nil
						require.NoError(t, w.store().Archive(t.Context(), org, run))
					}
				}
				page, err := s.Page(t.Context(), org, run, ended, "", 1000)
				require.NoError(t, err)
				var got []string
				for _, raw := range page.Events {
					got = append(got, name(t, raw))
				}
				rest := []string(nil)
				if page.Next != "" {
					rest, _ = w.read(s, run, true, page.Next, 1000)
				}
				assert.Equal(t, lines(450), append(got, rest...), "at query %d", at)
			})
		}
	}
}

func TestPageLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.fill(s, run, 150, 10, 50<<10)
		settled()
		for _, archived := range []bool{false, true} {
			if archived {
				require.NoError(t, s.Archive(t.Context(), org, run))
			}
			page, err := s.Page(t.Context(), org, run, archived, "", runlog.MaxLimit)
			require.NoError(t, err)
			size := 0
			for _, raw := range page.Events {
				size += len(raw)
			}
			assert.LessOrEqual(t, size, 4<<20)
			assert.Greater(t, size, 4<<20-60<<10, "a page is filled")
			for _, limit := range []int{7, 10, 150, runlog.MaxLimit} {
				got, last := w.read(s, run, archived, "", limit)
				assert.Equal(t, lines(150), got, "limit %d", limit)
				assert.Equal(t, archived, last.Next == "")
			}
			none, err := s.Page(t.Context(), org, run, archived, "", 0)
			require.NoError(t, err)
			assert.Len(t, none.Events, 1, "a page is never without room")
		}
	})
}

func TestEmptyLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		page, err := s.Page(t.Context(), org, run, false, "", 10)
		require.NoError(t, err)
		assert.Empty(t, page.Events)
		assert.NotEmpty(t, page.Next, "a live log may go on")
		w.fill(s, run, 1, 1, 10)
		fresh, err := s.Page(t.Context(), org, run, false, page.Next, 10)
		require.NoError(t, err)
		assert.Empty(t, fresh.Events, "others may still store what is older")
		settled()
		got, _ := w.read(s, run, false, page.Next, 10)
		assert.Equal(t, lines(1), got)

		require.NoError(t, s.Archive(t.Context(), org, "01EMPTY"))
		page, err = s.Page(t.Context(), org, "01EMPTY", true, page.Next, 10)
		require.NoError(t, err)
		assert.Empty(t, page.Events)
		assert.Empty(t, page.Next)
		assert.Equal(t, runlog.Archive, page.Source)
	})
}

func TestCursors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.fill(s, run, 30, 3, 10)
		w.fill(s, "01OTHER", 30, 3, 10)
		settled()
		page, err := s.Page(t.Context(), org, "01OTHER", false, "", 20)
		require.NoError(t, err)
		id, _, _ := strings.Cut(string(page.Next), ".")
		bad := []table.Cursor{
			".", "x", "..", "x.1", ".1", ".-1", table.Cursor(id), table.Cursor(id + "."), table.Cursor(id + ".-1"), table.Cursor(id + ".1.2"),
			table.Cursor(id + ".99999999999999999999"), table.Cursor("~" + id + ".1"), table.Cursor(id[1:] + ".1"), "\x00.0", "archive.0",
		}
		odd := []table.Cursor{ // well formed, of nothing here
			page.Next, table.Cursor(id + ".999999"), table.Cursor(ids.First(time.Time{}) + ".5"), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ.0",
			table.Cursor(ids.New(time.Now().Add(-time.Second)) + ".1"), table.Cursor(ids.New(time.Now().Add(time.Hour)) + ".1"),
		}
		for _, ended := range []bool{false, true} {
			for _, c := range bad {
				_, err := s.Page(t.Context(), org, run, ended, c, 10)
				assert.ErrorIs(t, err, runlog.ErrBadCursor, "%q", c)
			}
			for _, c := range odd {
				got, _ := w.read(s, run, ended, c, 10)
				assert.Subset(t, lines(30), got, "%q", c)
				for _, other := range []string{"01NOBODY", "x"} {
					page, err := s.Page(t.Context(), org, other, ended, c, 10)
					require.NoError(t, err)
					assert.Empty(t, page.Events, "%q", c)
				}
			}
			require.NoError(t, s.Archive(t.Context(), org, run))
		}
	})
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.store()
		w.fill(s, run, 30, 30, 1000)
		settled()
		for _, key := range w.objects(run) {
			require.NoError(t, w.blob.Delete(t.Context(), key))
		}
		_, err := s.Page(t.Context(), org, run, false, "", 10)
		assert.Error(t, err, "a log that lost an object is not shown as whole")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Page(ctx, org, run, true, "", 10)
		assert.True(t, errors.Is(err, context.Canceled), "%v", err)
	})
}
