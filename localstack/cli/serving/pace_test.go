package serving

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// counted is a fake server that counts calls.
type counted struct {
	atomic.Int64
	calls []string
}

func (c *counted) Commits() int64 { return c.Load() }
func (c *counted) Release()       { c.calls = append(c.calls, "release") }

func TestPaceFollowsLoad(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &counted{}
		var percents []int
		limit := int64(0)
		c := collector{
			live:    func() uint64 { return 48 << 20 },
			percent: func(n int) { percents = append(percents, n) },
			limit:   func(n int64) { limit = n },
			free:    func() { s.calls = append(s.calls, "free") },
		}
		go pace(ctx, c, s)
		second := func(n int64) {
			s.Add(n)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for range 20 {
			second(busyRate - 1)
		}
		assert.Empty(t, percents, "a idle server is left alone")
		assert.Equal(t, []string{"release", "free"}, s.calls, "once: what the start has left")
		assert.EqualValues(t, softLimit, limit)
		for range 3 {
			second(busyRate)
		}
		assert.Equal(t, []int{200}, percents)
		for range idleSeconds - 1 {
			second(0)
		}
		assert.Equal(t, []int{200}, percents, "a pause is no rest")
		for range 20 {
			second(1)
		}
		assert.Equal(t, []int{200, idlePercent}, percents)
		assert.Equal(t, []string{"release", "free", "release", "free"}, s.calls)
		second(1000)
		assert.Equal(t, []int{200, idlePercent, 200}, percents)
		cancel()
		synctest.Wait()
	})
}

func TestPaceRespectsEnvironment(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "50")
		pace(t.Context(), collector{}, nil) // must not be used
		t.Setenv(name, "")
	}
}

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 48 << 20: 200, 96 << 20: 100, 1 << 30: 100} {
		assert.Equal(t, want, percentFor(live), "%d bytes", live)
	}
}
