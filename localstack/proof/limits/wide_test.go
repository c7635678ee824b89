package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// TestWide runs the widest fan-out and the widest map that a flow may have.
func TestWide(t *testing.T) {
	n := size(1000, 10_000)
	tasks, names := []object{transform("root", "1")}, []string{}
	for i := range n - 2 {
		names = append(names, fmt.Sprint("t", i))
		tasks = append(tasks, transform(names[i], fmt.Sprint(i), "root"))
	}
	tasks = append(tasks, transform("join", fmt.Sprintf("tasks.t0.output + tasks.t%d.output", n-3), names...))
	each := transform("each", "item + 1", "list")
	each["map_over"] = "tasks.list.output"
	for flow, c := range map[string]struct {
		tasks   []object
		last    string
		output  string
		records int
	}{
		"fan-out": {tasks, "join", fmt.Sprint(n - 3), n},
		"map":     {[]object{transform("list", fmt.Sprintf("lists.range(%d)", n)), each, transform("last", "tasks.each.output[size(tasks.each.output) - 1]", "each")}, "last", fmt.Sprint(n), n + 2},
	} {
		t.Run(flow, func(t *testing.T) {
			s := start(t)
			s.register("wide", c.tasks...)
			registered := s.peak()
			began := time.Now()
			id := s.begin(client.RunRequest{FlowName: "wide"}).RunID
			run := s.end(id, 5*time.Minute)
			took := time.Since(began)
			require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
			ran := s.peak()
			run, err := s.Run(t.Context(), id)
			require.NoError(t, err)
			require.Len(t, run.TaskRuns, c.records)
			for _, r := range run.TaskRuns {
				require.Equal(t, "SUCCEEDED", r.Status, r.TaskName)
			}
			assert.JSONEq(t, c.output, string(run.Task(c.last)[0].Output))
			assert.Less(t, s.peak(), int64(mostMemory))
			t.Logf("%d tasks in %s; peak memory %d MB registered, %d MB run, %d MB read", n, took.Round(time.Millisecond), registered>>20, ran>>20, s.peak()>>20)
		})
	}
}
