package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/memory"
	"millrace/shared/clock"
	"millrace/shared/queue"
	"millrace/shared/queue/queuetest"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	queuetest.Exercise(t, func(_ *testing.T, defs ...queue.Definition) queue.Queues {
		return memory.NewQueues(clock.System{}, defs)
	})
}

// TestInBubble waits for a delayed message for a quarter of an hour of a
// bubble's time, with receivers that wait by turns.
func TestInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		qs := memory.NewQueues(clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Minute}})
		began := time.Now()
		require.NoError(t, qs.Send(t.Context(), "q", queue.Message{Body: []byte(`1`), Delay: queue.MaxDelay}))
		for {
			ds, err := qs.Receive(t.Context(), "q", 1, queue.MaxWait)
			require.NoError(t, err)
			if len(ds) == 0 {
				continue
			}
			assert.Equal(t, queue.MaxDelay, time.Since(began), "it comes the moment it is due")
			return
		}
	})
}
