package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSweepRunsEveryHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		stop := sweep(func(context.Context) (int, error) {
			calls++
			return 0, errors.New("a failure ends nothing")
		}, slog.New(slog.DiscardHandler))
		synctest.Wait()
		assert.Equal(t, 1, calls, "at once")
		time.Sleep(2*sweepEvery + time.Minute) // of the bubble's time
		assert.Equal(t, 3, calls)
		require.NoError(t, stop())
		time.Sleep(sweepEvery)
		assert.Equal(t, 3, calls)
	})
}
