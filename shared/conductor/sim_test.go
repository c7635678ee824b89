package conductor_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
)

// simulate plays histories that draw makes: a few in a test run, as many as
// -rapid.checks says in a long one. What rapid prints of a failure replays it:
// its fail file holds the flow and the seed from which everything else follows.
func simulate(t *testing.T, draw func(t *rapid.T) simHistory) {
	played, steps := 0, 0
	var longest time.Duration
	began := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		h := draw(rt)
		broke, s := play(t, h)
		played++
		steps += s.steps
		longest = max(longest, s.took)
		if broke != "" {
			rt.Fatalf("%s\nfaults: %v\nflow: %s", broke, s.plan.Counts(), s.flow.spec())
		}
	})
	took := time.Since(began).Seconds()
	t.Logf("%d histories, %.0f a second, %d steps, the longest run %s", played, float64(played)/took, steps, longest.Round(time.Second))
}

// calm draws a simHistory in which nothing fails.
func calm(t *rapid.T) simHistory {
	return simHistory{
		flow: drawFlow(t), seed: rapid.Uint64().Draw(t, "seed"),
		processes: rapid.IntRange(1, 3).Draw(t, "processes"),
		lambda:    rapid.Bool().Draw(t, "lambda"),
		retry:     rapid.Bool().Draw(t, "retry"),
	}
}

// stormy adds faults to a simHistory.
func stormy(t *rapid.T, h simHistory) simHistory {
	rate := func(name string, most float64) float64 {
		return rapid.SampledFrom([]float64{0, most / 5, most}).Draw(t, name)
	}
	h.rates = faults.Rates{
		Throttle: rate("throttle", .05), Before: rate("before", .05),
		After: rate("after", .05), Conflict: rate("conflict", .05),
		Stale: rate("stale", .8), Lose: rate("lose", .1), Late: rate("late", .5), Duplicate: rate("duplicate", .3),
	}
	return h
}

// TestSimulatedRuns plays runs, and retries of them, on several workers in
// random order.
func TestSimulatedRuns(t *testing.T) { simulate(t, calm) }

// TestSimulatedFaults does so over a store and queues that fail.
func TestSimulatedFaults(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := stormy(t, calm(t))
		h.pauses = rapid.Bool().Draw(t, "pauses")
		return h
	})
}

// TestSimulatedCancels cancels runs at random moments.
func TestSimulatedCancels(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		if rapid.Bool().Draw(t, "storm") {
			h = stormy(t, h)
		}
		h.pauses = rapid.Bool().Draw(t, "pauses")
		for range rapid.IntRange(1, 2).Draw(t, "cancels") {
			h.cancel = append(h.cancel, time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "after")))
		}
		return h
	})
}

// TestSimulatedCrashes kills processes at random writes: one that is alone and
// voids the leases of those before it, with its machine's power or without, or
// some of several.
func TestSimulatedCrashes(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		if rapid.Bool().Draw(t, "storm") {
			h = stormy(t, h)
		}
		if h.sole = rapid.Bool().Draw(t, "sole"); h.sole {
			h.processes, h.lambda = 1, false
			h.power = rapid.Bool().Draw(t, "power")
		}
		h.crashes = rapid.IntRange(1, 6).Draw(t, "crashes")
		if rapid.IntRange(0, 2).Draw(t, "cancelled") == 0 {
			h.cancel = []time.Duration{time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "after"))}
		}
		return h
	})
}

// TestSimulationRepeats plays one history twice: every request comes at the same
// time and in the same order, and each kind of fault is among what it meets.
func TestSimulationRepeats(t *testing.T) {
	h := simHistory{
		seed: 7, processes: 2, pauses: true,
		rates: faults.Rates{Throttle: .05, Before: .05, After: .05, Conflict: .05, Stale: .5, Lose: .1, Late: .3, Duplicate: .3},
	}
	for i := range 40 {
		deps := []int{}
		if i > 0 {
			deps = append(deps, (i-1)/3)
		}
		h.flow.tasks = append(h.flow.tasks, plainTask(i, deps, []act{actSucceed}))
	}
	broke, one := play(t, h)
	require.Empty(t, broke)
	broke, two := play(t, h)
	require.Empty(t, broke)
	assert.Equal(t, one.steps, two.steps)
	assert.Equal(t, one.trace.Sum64(), two.trace.Sum64())
	assert.Equal(t, one.plan.Counts(), two.plan.Counts())
	kinds := slices.Sorted(maps.Keys(one.plan.Counts()))
	assert.Equal(t, []string{"after", "before", "conflict", "duplicate", "late", "lose", "stale", "throttle"}, kinds)
	h.seed++
	broke, other := play(t, h)
	require.Empty(t, broke)
	assert.NotEqual(t, one.trace.Sum64(), other.trace.Sum64())
}
