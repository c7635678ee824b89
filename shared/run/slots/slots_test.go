package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/slots"
)

const org = "org_a"

func world(t *testing.T, limit int64) (table.Table, *slots.Slots) {
	store := memory.Table(t, clock.System{})
	return store, of(store, limit)
}

// of returns slots of workspaces with a limit for each.
func of(store table.Table, limit int64) *slots.Slots { return shared(store, limit, 0) }

// shared returns slots of workspaces with a limit for each, and one for all; 0:
// none.
func shared(store table.Table, limit, all int64) *slots.Slots {
	return slots.New(slots.Config{
		Table: store, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), All: all,
		Limit: func(string) (int64, bool) { return limit, limit >= 0 },
	})
}

func take(t *testing.T, s *slots.Slots, org string, n int) slots.Slot {
	t.Helper()
	slot, err := s.Take(t.Context(), org, "run", engine.Node(n))
	require.NoError(t, err)
	return slot
}

// TestLimitIsNeverExceeded: processes take slots at the same time until there are
// none, each of them once, in each workspace.
func TestLimitIsNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 15, 16, 17, 40} {
		store, _ := world(t, int64(limit))
		for _, org := range []string{"org_a", "org_b"} {
			var mu sync.Mutex
			numbers := map[int]bool{}
			var wg sync.WaitGroup
			var s *slots.Slots
			for p := range 4 {
				if p%2 == 0 { // two of the four are one process
					s = of(store, int64(limit))
				}
				s := s
				wg.Go(func() {
					for i := range limit + 3 {
						slot, err := s.Take(context.Background(), org, "run", engine.Node(100*p+i))
						if !assert.NoError(t, err) || slot.None() {
							continue
						}
						mu.Lock()
						assert.False(t, numbers[slot.Number], "slot %d of %d twice", slot.Number, limit)
						assert.Less(t, slot.Number, limit)
						numbers[slot.Number] = true
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			// A process that meets others may give up before it has found the last one.
			s = of(store, int64(limit))
			free, err := s.Free(t.Context(), org)
			require.NoError(t, err)
			assert.Equal(t, limit, len(numbers)+len(free))
			for i := range free {
				assert.False(t, take(t, s, org, 1000+i).None(), "%d of %d", i, limit)
			}
			assert.True(t, take(t, s, org, 2000).None())
			held, err := s.Held(t.Context(), org)
			require.NoError(t, err)
			assert.Len(t, held, limit)
		}
	}
}

// TestOnlyTheHolderPassesOrReleases: what another, or an earlier holder, does with
// a slot has no effect.
func TestOnlyTheHolderPassesOrReleases(t *testing.T) {
	t.Parallel()
	_, s := world(t, 1)
	first := take(t, s, org, 1)
	again := slots.Parse(first.String())
	assert.Equal(t, first, again)
	assert.WithinDuration(t, time.Now(), first.Since(), time.Minute)
	holds := func(slot slots.Slot, want bool) {
		t.Helper()
		got, err := s.Holds(t.Context(), org, slot)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	holds(first, true)
	second, err := s.Pass(t.Context(), org, first, "other", 2)
	require.NoError(t, err)
	require.False(t, second.None())
	assert.Equal(t, "other", second.Run)
	holds(first, false)
	holds(second, true)
	third, err := s.Pass(t.Context(), org, first, "third", 3)
	require.NoError(t, err)
	assert.True(t, third.None())
	require.NoError(t, s.Release(t.Context(), org, first))
	holds(second, true)
	other, err := s.TakeNumber(t.Context(), org, second.Number, "run", 4)
	require.NoError(t, err)
	assert.True(t, other.None())
	require.NoError(t, s.Release(t.Context(), org, second))
	require.NoError(t, s.Release(t.Context(), org, second))
	holds(second, false)
	peeked, err := s.Peek(t.Context(), org, "run", 5)
	require.NoError(t, err)
	assert.False(t, peeked.None())
	peeked, err = s.Peek(t.Context(), org, "run", 6)
	require.NoError(t, err)
	assert.True(t, peeked.None())
}

// TestMalformedSlotIsNone, such as that of an attempt which has none.
func TestMalformedSlotIsNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1", "x/run/1/2", "1/run"} {
		assert.True(t, slots.Parse(text).None(), text)
	}
	assert.Empty(t, slots.Slot{}.String())
}

// twice is a table whose driver loses the answer to each update and sends it
// again.
type twice struct{ table.Table }

func (w twice) Update(ctx context.Context, u table.Update) (table.Item, error) {
	if _, err := w.Table.Update(ctx, u); err != nil {
		return nil, err
	}
	return w.Table.Update(ctx, u)
}

func TestWriteSentAgainIsOne(t *testing.T) {
	t.Parallel()
	store, plain := world(t, 2)
	s := of(twice{store}, 2)
	for i := range 2 {
		assert.False(t, take(t, s, org, i).None())
	}
	held, err := plain.Held(t.Context(), org)
	require.NoError(t, err)
	assert.Len(t, held, 2)
	passed, err := s.Pass(t.Context(), org, held[0], "other", 9)
	require.NoError(t, err)
	assert.False(t, passed.None())
}

// TestLoweredLimitPassesNoSlot that is above it.
func TestLoweredLimitPassesNoSlot(t *testing.T) {
	t.Parallel()
	store, s := world(t, 20)
	slot, err := s.TakeNumber(t.Context(), org, 19, "run", 1)
	require.NoError(t, err)
	low := of(store, 19)
	passed, err := low.Pass(t.Context(), org, slot, "run", 2)
	require.NoError(t, err)
	assert.True(t, passed.None())
	require.NoError(t, low.Release(t.Context(), org, slot))
	held, err := s.Held(t.Context(), org)
	require.NoError(t, err)
	assert.Empty(t, held)
}

// broken fails every request.
type broken struct{ table.Table }

var errBroken = errors.New("broken")

func (broken) Get(context.Context, table.Key, ...table.ReadOption) (table.Item, error) {
	return nil, errBroken
}
func (broken) BatchGet(context.Context, []table.Key, ...table.ReadOption) ([]table.Item, error) {
	return nil, errBroken
}
func (broken) Update(context.Context, table.Update) (table.Item, error) { return nil, errBroken }
func (broken) Query(context.Context, table.Query) (table.Page, error) {
	return table.Page{}, errBroken
}

func TestErrorsArePassedOn(t *testing.T) {
	t.Parallel()
	store, s := world(t, 1)
	slot := take(t, s, org, 1)
	b := of(broken{store}, 1)
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"take":    func() error { _, err := b.Take(ctx, org, "run", 1); return err },
		"peek":    func() error { _, err := b.Peek(ctx, org, "run", 1); return err },
		"pass":    func() error { _, err := b.Pass(ctx, org, slot, "run", 1); return err },
		"release": func() error { return b.Release(ctx, org, slot) },
		"holds":   func() error { _, err := b.Holds(ctx, org, slot); return err },
		"held":    func() error { _, err := b.Held(ctx, org); return err },
		"free":    func() error { _, err := b.Free(ctx, org); return err },
		"next":    func() error { _, _, err := b.Next(ctx, org, 0); return err },
	} {
		require.ErrorIs(t, do(), errBroken, name)
	}
}

// TestRunsHaveTurns: the line gives the first nodes of each run in turn, and only
// those of the workspace.
func TestRunsHaveTurns(t *testing.T) {
	t.Parallel()
	store, s := world(t, 100)
	enter := func(org, run string, n int, since time.Time) {
		require.NoError(t, store.Put(t.Context(), table.Put{Item: runstate.Node{
			Key: runstate.NodeKey(org, run, engine.Node(n)), DueEntry: slots.Waiting(org, run, engine.Node(n), since),
		}}))
	}
	now := time.Now()
	for i := range 20 {
		enter(org, "run1", 20-i, now.Add(time.Duration(i)*time.Second))
	}
	enter(org, "run2", 3, now)
	enter(org, "run3", 4, now.Add(-time.Hour))
	enter("org_b", "run4", 5, now)
	var got []string
	for range 7 {
		w, ok, err := s.Next(t.Context(), org, 0)
		require.NoError(t, err)
		require.True(t, ok)
		got = append(got, fmt.Sprint(w.Run, " ", w.Node))
	}
	assert.Equal(t, []string{"run1 20", "run2 3", "run3 4", "run1 20", "run2 3", "run3 4", "run1 20"}, got)
	fresh := of(store, 100)
	chosen := map[engine.Node]bool{}
	for n := range 16 {
		w, ok, err := of(store, 100).Next(t.Context(), org, n)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, "run1", w.Run)
		assert.Greater(t, int(w.Node), 12, "one of the first")
		chosen[w.Node] = true
	}
	assert.Len(t, chosen, 8, "who choose at once choose different ones")
	_, ok, err := fresh.Next(t.Context(), "org_c", 0)
	require.NoError(t, err)
	assert.False(t, ok)
}
