package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/clock"
)

func TestSleepEndsAfterItsTimeOrWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.NoError(t, clock.Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorIs(t, clock.Sleep(ctx, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, time.Hour+time.Minute, time.Since(start))
	})
}
