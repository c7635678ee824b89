package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func statsCounts(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	eventually := func(want queue.Stats) {
		t.Helper()
		var got queue.Stats
		require.Eventually(t, func() bool {
			s, err := qs.Stats(t.Context(), name)
			got = s
			got.Oldest = 0
			return assert.NoError(t, err) && got == want
		}, patience, 20*time.Millisecond, "want %+v", want)
	}
	eventually(queue.Stats{})
	require.NoError(t, qs.Send(t.Context(), name, numbered(4, "")...))
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(9), Delay: queue.MaxDelay}))
	eventually(queue.Stats{Visible: 4, Delayed: 1})
	ds := collect(t, qs, name, 3)
	eventually(queue.Stats{Visible: 1, InFlight: 3, Delayed: 1})
	require.NoError(t, qs.Delete(t.Context(), name, ds[0].Receipt, ds[1].Receipt))
	require.NoError(t, qs.Extend(t.Context(), name, 0, ds[2].Receipt))
	eventually(queue.Stats{Visible: 2, Delayed: 1})

	s, err := qs.Stats(t.Context(), name)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, s.Oldest, time.Duration(0))
	assert.Less(t, s.Oldest, patience)
}

func depth(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, short)
	eventually := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, err := qs.Depth(t.Context(), name)
			return assert.NoError(t, err) && got == want
		}, patience, 20*time.Millisecond, "want %d", want)
	}
	eventually(0)
	require.NoError(t, qs.Send(t.Context(), name, numbered(3, "a")...))
	require.NoError(t, qs.Send(t.Context(), name, numbered(3, "b")...))
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(9), Delay: 2 * short}))
	eventually(6) // the delayed one is not ready
	eventually(7) // now it is
	ds := collect(t, qs, name, 7)
	require.NoError(t, qs.Delete(t.Context(), name, ds[0].Receipt, ds[1].Receipt))
	require.NoError(t, qs.Extend(t.Context(), name, queue.MaxDelay, ds[2].Receipt))
	eventually(4) // messages whose time-out is over are ready again
	_, err := qs.Depth(t.Context(), "nobody")
	require.ErrorIs(t, err, queue.ErrUnknownQueue)
}
