package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func visibilityExpires(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, short)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1), Group: "g"}))
	began := time.Now()
	first := next(t, qs, name)
	none(t, qs, name)
	second := next(t, qs, name)
	assert.GreaterOrEqual(t, time.Since(began), short-100*time.Millisecond)
	assert.Equal(t, first.ID, second.ID)
	assert.Equal(t, first.Body, second.Body)
	assert.Equal(t, first.Group, second.Group)
	assert.Equal(t, 2, second.Receives)
	assert.NotEqual(t, first.Receipt, second.Receipt)
	assert.WithinDuration(t, first.Sent, second.Sent, 0)
	// The delivery that holds the message can delete it; a stale receipt has no
	// effect.
	require.NoError(t, qs.Delete(t.Context(), name, second.Receipt))
	require.NoError(t, qs.Delete(t.Context(), name, first.Receipt))
	none(t, qs, name)
}

func extendHolds(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, short)
	require.NoError(t, qs.Send(t.Context(), name, numbered(2, "")...))
	began := time.Now()
	ds := collect(t, qs, name, 2)
	require.NoError(t, qs.Extend(t.Context(), name, long, ds[0].Receipt))
	again := next(t, qs, name)
	assert.Equal(t, ds[1].ID, again.ID, "the other one's time runs out")
	assert.GreaterOrEqual(t, time.Since(began), short-100*time.Millisecond)
	none(t, qs, name)
	require.NoError(t, qs.Delete(t.Context(), name, ds[0].Receipt))
}

func extendZero(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	msgs := numbered(3, "")
	require.NoError(t, qs.Send(t.Context(), name, msgs...))
	first := collect(t, qs, name, 3)
	require.NoError(t, qs.Extend(t.Context(), name, 0, first[0].Receipt, first[1].Receipt))
	again := collect(t, qs, name, 2)
	assert.ElementsMatch(t, bodies(first[:2]), bodies(again))
	for _, d := range again {
		assert.Equal(t, 2, d.Receives)
	}
	none(t, qs, name)
}

func extendAfterDelete(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	d := next(t, qs, name)
	require.NoError(t, qs.Delete(t.Context(), name, d.Receipt))
	require.ErrorIs(t, qs.Extend(t.Context(), name, long, d.Receipt), queue.ErrReceipt)
}

func extendForeign(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	d := next(t, qs, name)
	require.ErrorIs(t, qs.Extend(t.Context(), name, 0, "no receipt", d.Receipt), queue.ErrReceipt)
	assert.Equal(t, d.ID, next(t, qs, name).ID, "those that are held are extended all the same")
}
