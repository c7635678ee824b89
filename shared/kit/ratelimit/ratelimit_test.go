package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/memory"
	"millrace/localstack/proof/seed"
	"millrace/shared/kit/ratelimit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

func TestMain(m *testing.M) {
	seed.Fix()
	m.Run()
}

// hand is a clock that a test moves.
type hand struct {
	mu  sync.Mutex
	now time.Time
}

func newHand() *hand { return &hand{now: time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)} }

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// counted counts the updates of a table and fails them on demand.
type counted struct {
	table.Table
	mu      sync.Mutex
	updates int
	fail    error
}

func (c *counted) Update(ctx context.Context, u table.Update) (table.Item, error) {
	c.mu.Lock()
	c.updates++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return c.Table.Update(ctx, u)
}

// world is a limit per minute shared by several processes.
type world struct {
	*hand
	table *counted
	limit int64
	procs []*ratelimit.Limiter

	chance func(n int64) int64 // of new processes; nil: random
}

func newWorld(t memory.T, limit int64, procs int) *world {
	h := newHand()
	w := &world{hand: h, table: &counted{Table: memory.Table(t, h)}, limit: limit}
	for range procs {
		w.procs = append(w.procs, w.process())
	}
	return w
}

func (w *world) process() *ratelimit.Limiter {
	return ratelimit.New(w.hand, slog.New(slog.DiscardHandler), w.chance)
}

func (w *world) take(t require.TestingT, p *ratelimit.Limiter) *ratelimit.Exceeded {
	exceeded, err := p.Take(context.Background(), "runs", w.limit, 1, ratelimit.Window{
		Table: w.table, Clock: w.hand, Key: table.Key{PK: "acme#quota", SK: "runs"}, Limit: w.limit, Per: time.Minute,
	})
	require.NoError(t, err)
	return exceeded
}

func TestSmallLimitIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 2)
	w.advance(45 * time.Second)
	for i := range 5 {
		require.Nil(t, w.take(t, w.procs[i%2]))
	}
	writes := w.table.updates
	for range 1000 {
		for _, p := range w.procs {
			require.Equal(t, &ratelimit.Exceeded{After: 15 * time.Second, Count: 5}, w.take(t, p))
		}
	}
	assert.LessOrEqual(t, w.table.updates-writes, 2, "a process is told once that there are none left")
	w.advance(15 * time.Second)
	require.Nil(t, w.take(t, w.procs[0]), "the next minute")
}

// TestSimulatedProcesses runs processes that start and stop, crash with their
// slices and temporarily lose their table. A limit admits at most its permits
// plus the outstanding slices, and no process is rejected before the window's
// permits were drawn.
func TestSimulatedProcesses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{1, 7, 100, 1000, 40_000}).Draw(t, "limit")
		w := newWorld(t, limit, rapid.IntRange(1, 4).Draw(t, "processes"))
		slice := limit/20 + 1 + 2*(limit/10_000)
		var passed, blind, credits int64
		credits = int64(len(w.procs)) * 2 * (limit / 10_000)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				p := rapid.IntRange(0, len(w.procs)-1).Draw(t, "process")
				for range rapid.IntRange(1, 1500).Draw(t, "times") {
					exceeded := w.take(t, w.procs[p])
					if exceeded == nil {
						passed++
						continue
					}
					require.Equal(t, w.Now().Truncate(time.Minute).Add(time.Minute).Sub(w.Now()), exceeded.After)
				}
			},
			"crash": func(t *rapid.T) {
				p := rapid.IntRange(0, len(w.procs)-1).Draw(t, "process")
				w.procs[p] = w.process()
				credits += 2 * (limit / 10_000)
			},
			"outage": func(t *rapid.T) {
				w.table.fail = table.ErrThrottled
				for _, p := range w.procs {
					if w.take(t, p) == nil {
						passed++
						blind += slice
					}
				}
				w.table.fail = nil
			},
			"wait": func(t *rapid.T) {
				w.advance(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
				if w.Now().Truncate(time.Minute) != w.Now().Add(-20*time.Second).Truncate(time.Minute) {
					w.advance(w.Now().Truncate(time.Minute).Add(time.Minute).Sub(w.Now()))
					passed, blind = 0, 0
				}
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, passed, limit+blind+credits, "more than the limit, the slices drawn blindly and the credit")
			},
		})
	})
}

// TestHotPathTakesFewWrites covers a workspace that starts 3,000 runs a second,
// in one process or hundreds.
func TestHotPathTakesFewWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		procs, rate int // number of processes, and their total requests a second
		most        int // maximum of writes a second
	}{
		{1, 3000, 10},
		{16, 3000, 40},
		{300, 3000, 100},
		{300, 300, 60},
	} {
		w := newWorld(t, 360_000, 0)
		w.chance = rand.New(rand.NewPCG(1, uint64(c.procs))).Int64N //nolint:gosec // the same slices in each run of the test
		for range c.procs {
			w.procs = append(w.procs, w.process())
		}
		// Each process serves one request at a time, in turn, which is the worst
		// case.
		for second := range 130 {
			before := w.table.updates
			for i := range c.rate {
				require.Nil(t, w.take(t, w.procs[i%c.procs]))
				if i%(c.rate/100) == 0 {
					w.advance(10 * time.Millisecond)
				}
			}
			writes := w.table.updates - before
			assert.LessOrEqual(t, writes, c.most, "%d processes, second %d", c.procs, second)
		}
	}
}

func TestCreditIsDrawnLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 360_000, 1)
	var n int64
	for w.table.updates == 0 {
		require.Nil(t, w.take(t, w.procs[0]))
		n++
	}
	for item, err := range table.All(t.Context(), w.table, table.Query{PK: "acme#quota"}) {
		require.NoError(t, err)
		assert.GreaterOrEqual(t, item["used"].Int(), n, "what was used on credit is drawn with the first slice")
		assert.Equal(t, "runs#1772600760", item.Key().SK)
	}
}

func TestProcessWithoutTableGrantsItselfSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1000, 1)
	w.table.fail = errors.New("no table")
	for range 500 {
		require.Nil(t, w.take(t, w.procs[0]))
		w.advance(10 * time.Millisecond)
	}
	assert.Less(t, w.table.updates, 200, "it does not ask each time")
	w.table.fail = nil
	w.advance(time.Second)
	require.Nil(t, w.take(t, w.procs[0]))
}

func TestConcurrentRequestsDrawOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100_000, 1)
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() { assert.Nil(t, w.take(t, w.procs[0])) })
	}
	group.Wait()
	assert.LessOrEqual(t, w.table.updates, 1)
}

func TestCancelledWaiterReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(clock.System{}, slog.New(slog.DiscardHandler), nil)
		hangs := source(func(ctx context.Context) (ratelimit.Slice, error) {
			<-ctx.Done()
			return ratelimit.Slice{}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			_, err := l.Take(ctx, "x", 10, 1, hangs)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

type source func(ctx context.Context) (ratelimit.Slice, error)

func (s source) Draw(ctx context.Context, _, _ int64) (ratelimit.Slice, error) { return s(ctx) }
