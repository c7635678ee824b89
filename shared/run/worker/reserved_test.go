package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
)

var _ executor.Reserver = (*placed)(nil)

// TestAttemptKnowsThatItsSlotIsReserved checks the attempts of an executor that
// can reserve slots, and of one that cannot.
func TestAttemptKnowsThatItsSlotIsReserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		note := func(_ context.Context, a *executor.Attempt) executor.Result {
			if a.Reserved {
				told.Add(1)
			}
			return ok("1")
		}
		w, _ := places(t, 1)
		w.task("a", note)
		w.register("f", spec("a", "b: a"))
		w.task("b", note)
		assert.Equal(t, engine.Succeeded, w.ends(w.run("f").ID, time.Minute).Status)
		assert.EqualValues(t, 2, told.Load())

		told.Store(0)
		plain := newWorld(t)
		plain.task("a", note)
		plain.register("f", spec("a"))
		assert.Equal(t, engine.Succeeded, plain.ends(plain.run("f").ID, time.Minute).Status)
		assert.Zero(t, told.Load())
	})
}

// TestMessageWaitingForSlotIsNoDeadLetter checks that a message that was
// delivered again and again while it waited for a slot, to processes that died,
// is sent anew.
func TestMessageWaitingForSlotIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := places(t, 1)
		w.rt.Stop(w.ctx)
		p.places <- struct{}{}
		w.register("f", spec("a"))
		id := w.run("f").ID
		before, err := w.queues.Depth(w.ctx, events.Tasks("nano"))
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, w.hand("one").Handle(w.ctx, message(events.RunTask, id, 0), 6))
		assert.Zero(t, time.Since(began), "it does not wait")
		after, err := w.queues.Depth(w.ctx, events.Tasks("nano"))
		require.NoError(t, err)
		assert.Equal(t, before+1, after)
		<-p.places
		w.serve()
		assert.Equal(t, engine.Succeeded, w.ends(id, time.Minute).Status)
		assert.Equal(t, 1, w.times("a"))
	})
}
