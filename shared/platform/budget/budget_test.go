package budget_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/budget"
)

func TestBudgetStopsWhenUsedUp(t *testing.T) {
	t.Parallel()
	b, end := budget.New(t.Context(), budget.Limits{Steps: 10, Bytes: 100})
	defer end()
	require.NoError(t, b.Spend(10))
	require.NoError(t, b.Take(99))
	assert.Equal(t, budget.Limits{Steps: 10, Bytes: 99}, b.Used())
	err := b.Spend(1)
	require.EqualError(t, err, "does too much work; at most 10 steps are allowed")
	assert.Equal(t, err, b.Take(1), "a budget that has stopped stays so")
	assert.Equal(t, err, b.Err())

	b, end = budget.New(t.Context(), budget.Limits{Steps: 10, Bytes: 100})
	defer end()
	require.EqualError(t, b.Take(101), "builds too much; at most 100 bytes are allowed")

	for _, n := range []int{-1, int(^uint(0) >> 1)} { // an overflowed cost
		b, end := budget.New(t.Context(), budget.Limits{Steps: 10, Bytes: 100})
		defer end()
		require.NoError(t, b.Spend(1))
		require.Error(t, b.Spend(n))
	}
}

func TestUnlimitedBudgetNeverStops(t *testing.T) {
	t.Parallel()
	b := budget.Unlimited()
	for range 100 {
		require.NoError(t, b.Spend(1<<40))
		require.NoError(t, b.Take(1<<40))
	}
}

func TestWorkStopsWhenContextIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b, end := budget.New(ctx, budget.Limits{Steps: 1 << 40, Bytes: 1})
	defer end()
	defer cancel(nil)
	gone := errors.New("gone")
	steps := 0
	for ; b.Spend(100) == nil; steps += 100 {
		if steps == 1_000_000 {
			cancel(gone)
		}
		require.Less(t, steps, 2_000_000)
	}
	assert.Equal(t, gone, b.Err())

	b, end = budget.New(ctx, budget.Limits{Steps: 10, Bytes: 1})
	defer end()
	assert.Equal(t, gone, b.Spend(1), "work for a caller that is gone does not begin")
}

// All work ends, however much of it is queued: turns are handed on by work that
// fails, panics, or is cancelled while it waits, too.
func TestLongWorkTakesTurns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			parent := t.Context()
			if i%4 == 3 {
				parent = ctx
			}
			b, end := budget.New(parent, budget.Limits{Steps: 2_000_000, Bytes: 64 << 20})
			defer end()
			err := b.Do("test", func() error {
				for k := range 3_000 {
					if err := b.Spend(1000); err != nil {
						return err
					}
					if i%4 == 1 {
						budget.Must(b.Take(10_000))
					}
					if i%4 == 2 && k == 1000 {
						panic("boom")
					}
				}
				return nil
			})
			assert.Error(t, err)
			cancel()
		})
	}
	all.Wait()
}

func TestLibraryPanicIsAnError(t *testing.T) {
	t.Parallel()
	b, end := budget.New(t.Context(), budget.Limits{Steps: 10, Bytes: 100})
	defer end()
	err := b.Do("test", func() error { panic("with a secret value") })
	_, ok := errors.AsType[*budget.PanicError](err)
	assert.True(t, ok)
	assert.NotContains(t, err.Error(), "secret")

	want := errors.New("stop")
	assert.Equal(t, want, b.Do("test", func() error { budget.Must(want); return nil }))
	assert.Equal(t, want, b.Do("test", func() error { return want }))
	assert.NoError(t, b.Do("test", func() error { budget.Must(nil); return nil }))
}
