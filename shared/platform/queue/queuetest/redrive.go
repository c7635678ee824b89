package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// redrive receives and returns a message MaxReceives times. SQS moves it when
// it would be received once more, so the case keeps receiving.
func redrive(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1), Group: "g"}))
	for i := range queue.MaxReceives {
		d := next(t, qs, name)
		require.Equal(t, i+1, d.Receives)
		require.NoError(t, qs.Extend(t.Context(), name, 0, d.Receipt))
	}
	var dead []queue.Delivery
	require.Eventually(t, func() bool {
		ds, err := qs.Receive(t.Context(), name, 1, 0)
		if !assert.NoError(t, err) || !assert.Empty(t, ds, "delivered too often") {
			return false
		}
		dead, err = qs.Receive(t.Context(), queue.Dead(name), 1, 0)
		return assert.NoError(t, err) && len(dead) == 1
	}, patience, 10*time.Millisecond)
	assert.Equal(t, string(body(1)), string(dead[0].Body))
	assert.Equal(t, "g", dead[0].Group)
	require.NoError(t, qs.Delete(t.Context(), queue.Dead(name), dead[0].Receipt))
	none(t, qs, queue.Dead(name))
}

// redriveNot deletes a message in its last delivery.
func redriveNot(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	for range queue.MaxReceives - 1 {
		require.NoError(t, qs.Extend(t.Context(), name, 0, next(t, qs, name).Receipt))
	}
	require.NoError(t, qs.Delete(t.Context(), name, next(t, qs, name).Receipt))
	none(t, qs, name)
	none(t, qs, queue.Dead(name))
}
