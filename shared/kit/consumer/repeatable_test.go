package consumer_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/consumer"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/telemetry"
)

// TestRepeatableEventsAreNotRecorded: a consumer whose handling may be repeated
// handles each delivery, and makes no requests of the table, which here is none.
func TestRepeatableEventsAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := embedded(t)
	fails := true
	c := consumer.New(consumer.Config{
		Name: "counter", Queues: w.queues, Clock: clock.System{}, Log: telemetry.NewLogger(t.Output(), telemetry.Text, slog.LevelError+1), Lease: lease, Repeatable: true,
	}, consumer.On(made, func(ctx context.Context, d *consumer.Delivery, detail thing) error {
		if err := w.count(ctx, d, detail); err != nil || !fails {
			return err
		}
		return errors.New("not yet")
	}))
	require.NoError(t, w.bus.Publish(t.Context(), event("a")))
	batch := w.receive(0)
	require.Len(t, batch.Records, 1)
	assert.Len(t, w.deliver(c, batch), 1, "a failed one is delivered again")
	fails = false
	for range 2 {
		out, err := c.Messages(t.Context(), batch)
		require.NoError(t, err)
		assert.Empty(t, out.BatchItemFailures)
	}
	assert.Equal(t, 3, w.called("a"))
}
