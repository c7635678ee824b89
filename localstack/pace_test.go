package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCollectorIsPaced(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var commits atomic.Int64
		var percents []int
		freed, limit := 0, int64(0)
		c := collector{
			live:    func() uint64 { return 48 << 20 },
			percent: func(n int) { percents = append(percents, n) },
			limit:   func(n int64) { limit = n },
			free:    func() { freed++ },
		}
		go pace(ctx, c, commits.Load)
		second := func(n int64) {
			commits.Add(n)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for range 20 {
			second(busyRate - 1)
		}
		assert.Empty(t, percents, "a calm server is left alone")
		assert.EqualValues(t, softLimit, limit)
		for range 3 {
			second(busyRate)
		}
		assert.Equal(t, []int{200}, percents)
		for range calmSeconds - 1 {
			second(0)
		}
		assert.Equal(t, []int{200}, percents, "a pause is no rest")
		for range 20 {
			second(1)
		}
		assert.Equal(t, []int{200, calmPercent}, percents)
		assert.Equal(t, 1, freed)
		second(1000)
		assert.Equal(t, []int{200, calmPercent, 200}, percents)
		cancel()
		synctest.Wait()
	})
}

func TestWhoeverPacesItIsLeftTo(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "50")
		pace(t.Context(), collector{}, func() int64 { panic("not asked") })
		t.Setenv(name, "")
	}
}

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 48 << 20: 200, 96 << 20: 100, 1 << 30: 100} {
		assert.Equal(t, want, percentFor(live), "%d bytes", live)
	}
}
