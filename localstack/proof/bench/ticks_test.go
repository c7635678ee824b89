package bench_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/bench"
	"millrace/shared/platform/blob/blobtest"
)

// TestTickOfManySchedules: what is not due costs neither requests nor time, and
// 1000 schedules are handled in a minute if a request takes 5 ms.
func TestTickOfManySchedules(t *testing.T) {
	alone := counted(t, "tick, 1000 of 1000 schedules due")
	among := counted(t, "tick, 1000 of 100000 schedules due")
	among.Work = alone.Work
	assert.Equal(t, alone, among)

	const request = 5 * time.Millisecond
	schedules := 100 * bench.DueSchedules
	if widest < bench.Widest {
		schedules = 2 * bench.DueSchedules
	}
	synctest.Test(t, func(t *testing.T) {
		tick, start, err := bench.TickTimes(t.Context(), &blobtest.Memory{}, schedules, request)
		require.NoError(t, err)
		t.Logf("%d of %d schedules due, %s a request: the tick takes %s, the start of the runs %s", bench.DueSchedules, schedules, request, tick, start)
		assert.GreaterOrEqual(t, tick, 10*request)
		assert.Less(t, tick+start, time.Minute)
	})
}

// counted returns the counts of a work.
func counted(t *testing.T, work string) bench.Count {
	t.Helper()
	for _, c := range counts(t) {
		if c.Work == work {
			return c
		}
	}
	require.Fail(t, "not counted", work)
	return bench.Count{}
}
