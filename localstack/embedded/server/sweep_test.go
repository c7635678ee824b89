package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSweepRunsEveryHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		stop := sweep("items", func(context.Context) (int, error) {
			calls.Add(1)
			return 0, errors.New("a failure ends nothing")
		}, slog.New(slog.DiscardHandler))
		synctest.Wait()
		assert.EqualValues(t, 1, calls.Load(), "at once")
		time.Sleep(2*sweepEvery + time.Minute) // of the bubble's time
		assert.EqualValues(t, 3, calls.Load())
		require.NoError(t, stop())
		time.Sleep(sweepEvery)
		assert.EqualValues(t, 3, calls.Load())
	})
}
