package health

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
)

// probed returns a service with one component, and how often it was checked.
func probed(probe func(context.Context) error) (s *service, probes *atomic.Int32) {
	probes = &atomic.Int32{}
	return &service{clock: clock.System{}, log: slog.New(slog.DiscardHandler), checks: []check{{"key_value_table", func(ctx context.Context) (string, error) {
		probes.Add(1)
		return operational, probe(ctx)
	}}}}, probes
}

// TestManyRequestsMakeOneProbe, at once or within 5 s.
func TestManyRequestsMakeOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, probes := probed(func(context.Context) error { time.Sleep(time.Second); return nil }) // of the bubble's time
		ask := func() {
			r, err := s.health(t.Context(), &reportIn{})
			assert.NoError(t, err)
			assert.Equal(t, healthy, r.Status)
		}
		var all sync.WaitGroup
		for range 1000 {
			all.Go(ask)
		}
		all.Wait()
		time.Sleep(keepHealthy - time.Millisecond)
		for range 1000 {
			ask()
		}
		assert.EqualValues(t, 1, probes.Load())
		time.Sleep(time.Millisecond)
		ask()
		assert.EqualValues(t, 2, probes.Load())
	})
}

func TestFaultIsProbedAgainSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("down")
		s, probes := probed(func(context.Context) error { return fault })
		status := func() status {
			r, err := s.health(t.Context(), &reportIn{})
			require.NoError(t, err)
			return r.Status
		}
		assert.Equal(t, unhealthy, status())
		fault = nil
		assert.Equal(t, unhealthy, status())
		assert.EqualValues(t, 1, probes.Load())
		time.Sleep(keepFaulty)
		assert.Equal(t, healthy, status())
	})
}

// TestProbeOutlivesItsFirstRequest: others wait for it.
func TestProbeOutlivesItsFirstRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, probes := probed(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return nil
			}
		})
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := s.health(first, &reportIn{})
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		cancel()
		r, err := s.health(t.Context(), &reportIn{})
		require.NoError(t, err)
		assert.Equal(t, healthy, r.Status)
		all.Wait()
		assert.EqualValues(t, 1, probes.Load())
	})
}
