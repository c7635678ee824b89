package conductor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/engine"
	"millrace/shared/executor"
)

var _ executor.Reserver = (*placed)(nil)

// TestAnAttemptKnowsThatItsPlaceIsReserved: an executor that can reserve places is
// told so, and one that cannot is not.
func TestAnAttemptKnowsThatItsPlaceIsReserved(t *testing.T) {
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
