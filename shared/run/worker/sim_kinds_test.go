package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
	"millrace/shared/run/worker"
)

// TestSimulatedRuns plays runs, and retries of them, on several workers in
// random order.
func TestSimulatedRuns(t *testing.T) { simulate(t, calm) }

// TestSimulatedRunsWithoutTicks plays runs without ticks: as long as nothing fails,
// messages alone bring a run to its end.
func TestSimulatedRunsWithoutTicks(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		h.noTicks, h.flow.deadline = true, 0
		return h
	})
}

// TestSimulatedFaults plays runs with a store and queues that fail.
func TestSimulatedFaults(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := stormy(t, calm(t))
		if h.pauses = rapid.Bool().Draw(t, "pauses"); h.pauses {
			slowly(t, &h)
		}
		return h
	})
}

// TestSimulatedOutages makes the table, the object store, the queues, the bus
// or the log fail or hang for a while, during tasks that take longer than a
// lease.
func TestSimulatedOutages(t *testing.T) {
	few(t)
	ports := []faults.Port{faults.Tables, faults.Tables, faults.Objects, faults.Queues, faults.Bus, faults.Logs}
	simulate(t, func(t *rapid.T) simHistory {
		h := calm(t)
		for range rapid.IntRange(1, 3).Draw(t, "outages") {
			h.outages = append(h.outages, simOutage{
				port: rapid.SampledFrom(ports).Draw(t, "port"), after: drawCancel(t),
				For:  rapid.SampledFrom([]time.Duration{2 * time.Second, 20 * time.Second, 2 * time.Minute, 10 * time.Minute}).Draw(t, "for"),
				rate: rapid.SampledFrom([]float64{.3, .9, 1}).Draw(t, "rate"), hang: rapid.IntRange(0, 2).Draw(t, "hang") == 0,
			})
		}
		slowly(t, &h)
		for i := range h.flow.tasks {
			h.flow.tasks[i].large = h.flow.tasks[i].large || rapid.IntRange(0, 3).Draw(t, "large") == 0
		}
		if rapid.IntRange(0, 3).Draw(t, "cancelled") == 0 {
			h.cancel = []time.Duration{drawCancel(t)}
		}
		return h
	})
}

// TestSimulatedCancels cancels runs at random moments.
func TestSimulatedCancels(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := sometimes(t, calm(t))
		h.pauses = rapid.Bool().Draw(t, "pauses")
		for range rapid.IntRange(1, 2).Draw(t, "cancels") {
			h.cancel = append(h.cancel, drawCancel(t))
		}
		return h
	})
}

// TestSimulatedCrashes kills processes at random writes: a sole process that
// voids the leases of earlier ones, with or without its machine's power, or
// some of several.
func TestSimulatedCrashes(t *testing.T) {
	simulate(t, func(t *rapid.T) simHistory {
		h := sometimes(t, calm(t))
		if h.sole = rapid.Bool().Draw(t, "sole"); h.sole {
			h.processes, h.lambda = 1, false
			h.power = rapid.Bool().Draw(t, "power")
		}
		h.crashes = rapid.IntRange(1, 6).Draw(t, "crashes")
		if rapid.IntRange(0, 2).Draw(t, "cancelled") == 0 {
			h.cancel = []time.Duration{drawCancel(t)}
		}
		return h
	})
}

// TestSimulatedKillers has tasks that kill their process, once or until they
// may lose no more leases.
func TestSimulatedKillers(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := sometimes(t, calm(t))
		if h.sole = rapid.Bool().Draw(t, "sole"); h.sole {
			h.processes, h.lambda = 1, false
		}
		for range rapid.IntRange(1, 2).Draw(t, "killers") {
			i := rapid.IntRange(0, len(h.flow.tasks)-1).Draw(t, "killer")
			if h.flow.tasks[i].wait == 0 {
				h.flow.tasks[i].kills = rapid.SampledFrom([]int{1, 2, worker.MaxLost}).Draw(t, "kills")
			}
		}
		return h
	})
}

// simSkew is the largest difference of the clocks. Leases tolerate a difference
// of less than half of one.
const simSkew = 7 * time.Second

// TestSimulatedSkew gives processes different clocks.
func TestSimulatedSkew(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := sometimes(t, calm(t))
		h.processes = rapid.IntRange(2, 4).Draw(t, "processes")
		h.pauses = rapid.Bool().Draw(t, "pauses")
		for range 4 {
			h.skew = append(h.skew, time.Duration(rapid.Int64Range(-int64(simSkew), int64(simSkew)).Draw(t, "skew")))
		}
		if rapid.IntRange(0, 3).Draw(t, "cancelled") == 0 {
			h.cancel = []time.Duration{drawCancel(t)}
		}
		return h
	})
}

// TestSimulatedCrowds plays several runs of two workspaces at once, on few
// workers.
func TestSimulatedCrowds(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		h := sometimes(t, calm(t))
		h.slots = rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "slots")
		h.orgs = rapid.SliceOfN(rapid.SampledFrom([]string{org, "org_other"}), 2, 4).Draw(t, "orgs")
		h.crashes = rapid.IntRange(0, 1).Draw(t, "crashes")
		if rapid.IntRange(0, 3).Draw(t, "cancelled") == 0 {
			h.cancel = []time.Duration{drawCancel(t)}
		}
		return h
	})
}

// backlog returns a history of slow tasks that wait for few workers.
func backlog(seed uint64, tasks, timeout, processes, slots int) simHistory {
	h := simHistory{seed: seed, processes: processes, slots: slots}
	h.flow.tasks = []simTask{plainTask(0, nil, []act{actSucceed})}
	for i := range tasks {
		task := plainTask(i+1, []int{0}, []act{actSlow})
		task.timeout = timeout
		h.flow.tasks = append(h.flow.tasks, task)
	}
	return h
}

// TestSimulatedBacklogs has tasks that wait long for a worker.
func TestSimulatedBacklogs(t *testing.T) {
	few(t)
	simulate(t, func(t *rapid.T) simHistory {
		return backlog(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(4, 12).Draw(t, "tasks"),
			rapid.SampledFrom([]int{60, 200}).Draw(t, "timeout"), rapid.IntRange(1, 2).Draw(t, "processes"), rapid.IntRange(1, 2).Draw(t, "slots"))
	})
}

// TestSimulatedLongBacklog has 300 tasks of nine minutes that wait for 16
// workers.
func TestSimulatedLongBacklog(t *testing.T) {
	alone(t)
	broke, s := play(t, backlog(1, 300, 541, 1, 16))
	require.Empty(t, broke)
	t.Logf("%s, %d steps, messages about nodes by run: %v", s.took, s.steps, s.sent.nodes)
}
