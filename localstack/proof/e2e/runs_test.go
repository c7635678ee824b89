package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// TestWorkloads runs the flows of the benchmark. Times are only logged, because
// they depend on the machine.
func TestWorkloads(t *testing.T) {
	s := start(t, dataDir(t))
	api := s.Client()
	var chain, wide, python []task
	for i := range 40 {
		chain = append(chain, transform(fmt.Sprint("t", i), fmt.Sprint(i), before(i)...))
		python = append(python, task{Name: fmt.Sprint("t", i), Type: "python", Entrypoint: "flow:step", DependsOn: before(i)})
	}
	var all []string
	for i := range 100 {
		wide = append(wide, transform(fmt.Sprint("t", i), fmt.Sprint(i)))
		all = append(all, fmt.Sprint("t", i))
	}
	wide = append(wide, transform("join", "tasks.t0.output + tasks.t99.output", all...))
	mapped := []task{
		{Name: "each", Type: "transform", MapOver: "lists.range(1000)", Config: map[string]any{"expression": "item * 2"}},
		transform("last", "tasks.each.output[999]", "each"),
	}
	register(t, api, "chain", chain)
	register(t, api, "wide", wide)
	register(t, api, "mapped", mapped)
	deploy(t, api, "python", "def step(ctx):\n    return ctx.task_name\n", python)

	for _, w := range []struct {
		flow, last, output string
		records            int
	}{
		{"chain", "t39", "39", 40},
		{"wide", "join", "99", 101},
		{"mapped", "last", "1998", 1001},
		{"python", "t39", `"t39"`, 40},
	} {
		best := time.Hour
		for range 5 {
			begin := time.Now()
			run, err := api.Start(t.Context(), client.RunRequest{FlowName: w.flow, FlowVersion: "1", Execute: true})
			best = min(best, time.Since(begin))
			require.NoError(t, err)
			require.Equal(t, "SUCCEEDED", run.Status, "%s: %s", run.ErrorMessage, states(run))
			require.Len(t, run.TaskRuns, w.records)
			for _, r := range run.TaskRuns {
				require.Equal(t, "SUCCEEDED", r.Status, r.TaskName)
				require.Equal(t, 1, r.Attempt, r.TaskName)
			}
			assert.JSONEq(t, w.output, string(run.Task(w.last)[0].Output))
		}
		t.Logf("%-8s %4d tasks, best of 5: %s", w.flow, w.records, best.Round(100*time.Microsecond))
	}
}

func before(i int) []string {
	if i == 0 {
		return nil
	}
	return []string{fmt.Sprint("t", i-1)}
}

func TestPythonLogsAndOutputs(t *testing.T) {
	t.Parallel()
	api := start(t, dataDir(t)).Client()
	deploy(t, api, "talk", `
import sys

def first(ctx):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    ctx.log("by hand", rows=3)
    return {"n": 12345678901234567890}

def second(first):
    return first["n"] + 1
`, []task{
		{Name: "first", Type: "python", Entrypoint: "flow:first"},
		{Name: "second", Type: "python", Entrypoint: "flow:second", DependsOn: []string{"first"}},
	})
	run, err := api.Start(t.Context(), client.RunRequest{Deployment: "talk"})
	require.NoError(t, err)
	done := finish(t, api, run.RunID)
	assert.Equal(t, json.RawMessage("12345678901234567891"), done.Task("second")[0].Output)
	events, err := api.Log(t.Context(), run.RunID)
	require.NoError(t, err)
	var lines []string
	for _, e := range events {
		if e.EventType == "log" {
			lines = append(lines, e.Message)
		}
	}
	require.Len(t, lines, 3)
	assert.Contains(t, lines, "to stdout")
	assert.Contains(t, lines, "to stderr")
	assert.Contains(t, lines[2], "by hand")
}

func TestGracefulStopLosesNoWork(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	page := newCounter(t)
	page.hold("late")
	s := start(t, dir, "--allow-loopback")
	register(t, s.Client(), "stop", []task{page.call("early"), page.call("late", "early"), transform("end", "1", "late")})
	run, err := s.Client().Start(t.Context(), client.RunRequest{FlowName: "stop", FlowVersion: "1"})
	require.NoError(t, err)
	page.waitFor(t, "late")
	begin := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	// It stops listening, but lets the task finish.
	require.Eventually(t, func() bool { return s.Client().Do(t.Context(), "GET", "/health", nil, nil) != nil }, 10*time.Second, 10*time.Millisecond)
	page.release()
	require.NoError(t, <-stopped)
	t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))

	api := start(t, dir, "--allow-loopback").Client()
	finish(t, api, run.RunID)
	assert.Equal(t, map[string]int{"early": 1, "late": 1}, page.counts(), "what was running finished before the server did")
}
