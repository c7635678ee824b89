package worker

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBudget checks that the bytes acquired at once stay within the budget,
// that larger requests are granted alone, and that all are granted.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const whole = 1000
		b := newBudget(whole)
		var held, holders, served atomic.Int64
		for range 500 {
			bytes := 1 + int64(rand.IntN(2*whole))
			go func() {
				release, err := b.acquire(t.Context(), bytes)
				if !assert.NoError(t, err) {
					return
				}
				now, among := held.Add(bytes), holders.Add(1)
				if bytes > whole {
					assert.EqualValues(t, 1, among, "it is alone")
				} else {
					assert.LessOrEqual(t, now, int64(whole))
				}
				time.Sleep(time.Millisecond)
				held.Add(-bytes)
				holders.Add(-1)
				served.Add(1)
				release()
				release()
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 500, served.Load())
	})
}

// TestBudgetIsGrantedInOrder checks that later small requests do not overtake a
// large one.
func TestBudgetIsGrantedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		first, err := b.acquire(t.Context(), 5)
		require.NoError(t, err)
		large := make(chan func())
		go func() {
			release, err := b.acquire(t.Context(), 10)
			assert.NoError(t, err)
			large <- release
		}()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.acquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		first()
		release := <-large
		release()
		last, err := b.acquire(t.Context(), 10)
		require.NoError(t, err, "who gave up took nothing")
		last()
		none, err := b.acquire(t.Context(), -1)
		require.NoError(t, err)
		none()
	})
}
