package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/kit/ratelimit"
	"millrace/shared/platform/table"
)

func recent(t *testing.T) (ratelimit.Recent, *hand) {
	t.Helper()
	h := newHand()
	return ratelimit.Recent{
		Table: memory.Table(t, h), Clock: h, Key: table.Key{PK: "user#ann", SK: "codes"}, Limit: 3, Per: 5 * time.Minute,
	}, h
}

func TestRecentLimitsAnyStretchOfTime(t *testing.T) {
	t.Parallel()
	r, h := recent(t)
	take := func() *ratelimit.Exceeded {
		t.Helper()
		exceeded, err := r.Take(t.Context())
		require.NoError(t, err)
		return exceeded
	}
	for range 3 {
		require.Nil(t, take())
		h.advance(2 * time.Minute) // at 0, 2 and 4 minutes
	}
	require.Nil(t, take(), "the first is six minutes old")
	exceeded := take()
	require.NotNil(t, exceeded)
	assert.Equal(t, time.Minute, exceeded.After, "when the one of the second minute is five minutes old")
	h.advance(time.Minute - time.Millisecond)
	assert.NotNil(t, take())
	h.advance(time.Millisecond)
	assert.Nil(t, take())
	assert.NotNil(t, take())

	require.NoError(t, r.Return(t.Context()))
	assert.Nil(t, take(), "one was given back")
	h.advance(5 * time.Minute)
	for range 3 {
		assert.Nil(t, take())
	}
	assert.NotNil(t, take())
}

func TestReturnWithoutPermitsDoesNothing(t *testing.T) {
	t.Parallel()
	r, _ := recent(t)
	require.NoError(t, r.Return(t.Context()))
	for range 3 {
		exceeded, err := r.Take(t.Context())
		require.NoError(t, err)
		require.Nil(t, exceeded)
	}
	exceeded, err := r.Take(t.Context())
	require.NoError(t, err)
	assert.NotNil(t, exceeded)
}

func TestRecentIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	r, _ := recent(t)
	r.Limit = 10
	var admitted, rejected atomic.Int64
	var all sync.WaitGroup
	for range 100 { // each as a process of its own: nothing is in memory
		all.Go(func() {
			exceeded, err := r.Take(t.Context())
			assert.NoError(t, err)
			if exceeded == nil {
				admitted.Add(1)
			} else {
				rejected.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 10, admitted.Load())
	assert.EqualValues(t, 90, rejected.Load())
}
