package worker_test

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
)

// simulate plays drawn histories: a few in a test run, as many as -rapid.checks
// says in a long one. The output of rapid for a failure replays it: its fail
// file has the flow and the seed from which everything else follows.
func simulate(t *testing.T, draw func(t *rapid.T) simHistory) {
	alone(t)
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
			rt.Fatalf("%s\nfaults: %v\nflow: %s\nthe last of what happened:\n%s", broke, s.plan.Counts(), s.flow.spec(), &s.told)
		}
	})
	took := time.Since(began).Seconds()
	t.Logf("%d histories, %.0f a second, %d steps, the longest run %s", played, float64(played)/took, steps, longest.Round(time.Second))
}

// few makes a test run play fewer histories of a kind than rapid's default,
// unless their number is set.
func few(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	require.NoError(t, checks.Value.Set("40"))
	t.Cleanup(func() { require.NoError(t, checks.Value.Set(checks.DefValue)) })
}

// alone makes one goroutine run at a time until the test ends, so that two that
// wake at the same instant do not race and histories repeat.
func alone(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// calm draws a history in which nothing fails.
func calm(t *rapid.T) simHistory {
	h := simHistory{
		flow: drawFlow(t), seed: rapid.Uint64().Draw(t, "seed"),
		processes: rapid.IntRange(1, 3).Draw(t, "processes"),
		lambda:    rapid.Bool().Draw(t, "lambda"),
		retries:   rapid.SliceOfN(rapid.SampledFrom([]bool{true, true, true, false}), 0, generations-1).Draw(t, "retries"),
		forgets:   rapid.IntRange(0, 2).Draw(t, "forgets") == 0,
	}
	h.twice = rapid.IntRange(0, 3).Draw(t, "twice") == 0
	if rapid.IntRange(0, 2).Draw(t, "batches") == 0 {
		h.batch = rapid.SampledFrom([]int{3, 10}).Draw(t, "batch")
	}
	return h
}

// stormy adds faults to a history.
func stormy(t *rapid.T, h simHistory) simHistory {
	rate := func(name string, most float64) float64 {
		return rapid.SampledFrom([]float64{0, most / 5, most}).Draw(t, name)
	}
	h.rates = faults.Rates{
		Throttle: rate("throttle", .05), Before: rate("before", .05), Resend: rate("resend", .05),
		After: rate("after", .05), Conflict: rate("conflict", .05),
		Stale: rate("stale", .8), Lose: rate("lose", .1), Late: rate("late", .5), Duplicate: rate("duplicate", .3),
	}
	h.calmAfter = rapid.SampledFrom([]time.Duration{simCalm, simCalm, time.Minute, 10 * time.Minute}).Draw(t, "calm after")
	return h
}

// sometimes draws whether a history is stormy.
func sometimes(t *rapid.T, h simHistory) simHistory {
	if rapid.Bool().Draw(t, "storm") {
		return stormy(t, h)
	}
	return h
}

// slowly makes some tasks take longer than a lease.
func slowly(t *rapid.T, h *simHistory) {
	for i := range h.flow.tasks {
		task := &h.flow.tasks[i]
		if rapid.Bool().Draw(t, "slowly") {
			task.timeout = rapid.SampledFrom([]int{110, 300}).Draw(t, "timeout")
			for gen := range task.acts {
				task.acts[gen] = [][]act{{actSlow}}
			}
		}
	}
}

func drawCancel(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "after"))
}

// repeated returns a history with all kinds of faults.
func repeated() simHistory {
	h := simHistory{
		seed: 7, processes: 2, pauses: true, batch: 3,
		rates:   faults.Rates{Throttle: .05, Before: .05, After: .05, Conflict: .05, Resend: .05, Stale: .5, Lose: .1, Late: .3, Duplicate: .3},
		outages: []simOutage{{faults.Tables, 0, time.Minute, .1, true}, {faults.Objects, 0, 10 * time.Minute, .5, false}},
	}
	for i := range 40 {
		deps := []int{}
		if i > 0 {
			deps = append(deps, (i-1)/3)
		}
		h.flow.tasks = append(h.flow.tasks, plainTask(i, deps, []act{actSucceed}))
		h.flow.tasks[i].large, h.flow.tasks[i].lines = i%4 == 0, 1
	}
	return h
}

// TestSimulationRepeats plays one history twice: every request is made at the
// same time and in the same order, and each kind of fault occurs.
func TestSimulationRepeats(t *testing.T) {
	alone(t)
	h := repeated()
	broke, one := play(t, h)
	require.Empty(t, broke)
	broke, two := play(t, h)
	require.Empty(t, broke)
	assert.Equal(t, one.steps, two.steps)
	assert.Equal(t, one.trace.Sum64(), two.trace.Sum64())
	assert.Equal(t, one.plan.Counts(), two.plan.Counts())
	kinds := slices.Sorted(maps.Keys(one.plan.Counts()))
	assert.Equal(t, []string{"after", "before", "conflict", "duplicate", "hang", "late", "lose", "outage", "resend", "stale", "throttle"}, kinds)
	h.seed++
	broke, other := play(t, h)
	require.Empty(t, broke)
	assert.NotEqual(t, one.trace.Sum64(), other.trace.Sum64())
}
