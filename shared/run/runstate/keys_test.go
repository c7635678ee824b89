package runstate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// TestKeysBeginWithTheWorkspace: no key that is made for one workspace is in
// reach of another's, whatever their runs are called.
func TestKeysBeginWithTheWorkspace(t *testing.T) {
	t.Parallel()
	keys := func(org string) map[string]string {
		due := runstate.DueAt(org, "run", 7, time.UnixMilli(1))
		out := map[string]string{
			"run":            runstate.RunKey(org, "run").PK,
			"input":          runstate.InputKey(org, "run").PK,
			"archive":        runstate.ArchiveKey(org, "run").PK,
			"log":            runstate.LogPartition(org, "run"),
			"node":           runstate.NodeKey(org, "run", engine.Node(7)).PK,
			"node partition": runstate.NodePartition(org, "run", 3),
			"object":         runstate.Object(org, "run", "out.json"),
			"list":           runstate.ListPartition(org, "flow", "env"),
			"due":            strings.TrimPrefix(due.DueSK, "0000000000001#"),
		}
		for shard, pk := range runstate.LogPartitions(org, "run") {
			out[fmt.Sprint("log shard ", shard)] = pk
		}
		lists := runstate.Lists(org, "flow", "env", "run")
		out["l1"], out["l2"], out["l3"], out["l4"] = lists.L1PK, lists.L2PK, lists.L3PK, lists.L4PK
		return out
	}
	one, other := keys("one"), keys("other")
	for name, key := range one {
		assert.True(t, strings.HasPrefix(key, "one#") || strings.HasPrefix(key, "one/"), "%s: %s", name, key)
		assert.NotEqual(t, key, other[name], name)
	}
	due := runstate.DueAt("one", "run", 7, time.UnixMilli(1)).DueSK
	assert.Equal(t, 7, runstate.DueTasks(due))
	assert.Equal(t, 1, runstate.DueTasks(strings.TrimSuffix(due, "#7")), "as an earlier version wrote it")
	org, run, ok := runstate.ParseRunKey(strings.TrimSuffix(one["due"], "#7"))
	assert.True(t, ok)
	assert.Equal(t, []string{"one", "run"}, []string{org, run}, "a due entry leads back to its run")
	assert.Equal(t, one["log"], one["log shard 0"])
	partitions := map[string]bool{}
	for shard := range runstate.LogShards {
		pk := one[fmt.Sprint("log shard ", shard)]
		partitions[pk] = true
		_, _, ok = runstate.ParseRunKey(pk)
		assert.False(t, ok, "a partition of a run is no run: %s", pk)
	}
	assert.Len(t, partitions, runstate.LogShards)
}

// TestFenced: whatever stops a run keeps its tasks from starting.
func TestFenced(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	for name, c := range map[string]struct {
		run  runstate.Run
		want string
	}{
		"running":           {runstate.Run{Status: engine.Running}, ""},
		"queued":            {runstate.Run{Status: engine.Queued}, ""},
		"before its end":    {runstate.Run{Status: engine.Running, Deadline: 1001}, ""},
		"at its deadline":   {runstate.Run{Status: engine.Running, Deadline: 1000}, runstate.FenceDeadline},
		"fenced":            {runstate.Run{Status: engine.Running, Fence: runstate.FenceDeadline}, runstate.FenceDeadline},
		"cancel, then late": {runstate.Run{Status: engine.CancellationRequested, Fence: runstate.FenceCancel, Deadline: 1}, runstate.FenceCancel},
		"cancelled":         {runstate.Run{Status: engine.Cancelled}, runstate.FenceCancel},
		"over":              {runstate.Run{Status: engine.Succeeded}, "ended"},
	} {
		assert.Equal(t, c.want, c.run.Fenced(now), name)
	}
}
