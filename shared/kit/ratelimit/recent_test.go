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
	take := func() *ratelimit.Refusal {
		t.Helper()
		refused, err := r.Take(t.Context())
		require.NoError(t, err)
		return refused
	}
	for range 3 {
		require.Nil(t, take())
		h.advance(2 * time.Minute) // at 0, 2 and 4 minutes
	}
	require.Nil(t, take(), "the first is six minutes old")
	refused := take()
	require.NotNil(t, refused)
	assert.Equal(t, time.Minute, refused.After, "when the one of the second minute is five minutes old")
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
		refused, err := r.Take(t.Context())
		require.NoError(t, err)
		require.Nil(t, refused)
	}
	refused, err := r.Take(t.Context())
	require.NoError(t, err)
	assert.NotNil(t, refused)
}

func TestRecentIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	r, _ := recent(t)
	r.Limit = 10
	var admitted, refusals atomic.Int64
	var all sync.WaitGroup
	for range 100 { // each as a process of its own: nothing is in memory
		all.Go(func() {
			refused, err := r.Take(t.Context())
			assert.NoError(t, err)
			if refused == nil {
				admitted.Add(1)
			} else {
				refusals.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 10, admitted.Load())
	assert.EqualValues(t, 90, refusals.Load())
}
