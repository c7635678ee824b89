package runs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// The bytes that DynamoDB bills for what a run leaves behind, as told in
// infra/README.md.
const (
	runBytes  = 4800 // the record, its input, its audit entry, and its log with the lines of 20 tasks
	taskBytes = 255  // a task of a chain, without its output
)

// stored returns the bytes that DynamoDB bills for an item and its index
// entries: 100 bytes each besides their attributes.
func stored(item table.Item) int {
	const overhead = 100
	n := item.Size() + overhead
	for _, x := range table.Indexes {
		if entry, in := item.Entry(x); in {
			n += table.EntryItem(x, entry, item.Key()).Size() + overhead
		}
	}
	return n
}

func TestStorageOfARun(t *testing.T) {
	t.Parallel()
	w := idle(t, localtest.Options{Config: fn.Config{LongLived: true}, Limits: []string{"plan=free"}})
	w.work(t)
	const tasks = 20
	chain := []object{}
	for i := range tasks {
		task := object{"name": fmt.Sprintf("task_%02d", i), "type": "transform", "config": object{"expression": "1"}}
		if i > 0 {
			task["depends_on"] = []string{fmt.Sprintf("task_%02d", i-1)}
		}
		chain = append(chain, task)
	}
	w.flow(t, "daily_report", "1.0.0", object{"tasks": chain})
	id := w.run(t, object{"flow_name": "daily_report", "flow_version": "1.0.0"})
	w.ended(t, id)
	w.archived(t, id)

	nodes, rest := 0, 0
	for item, err := range table.All(t.Context(), w.Deps.Table, table.Query{PK: runstate.NodePartition(w.A.OrgID, id, 0), Consistent: true}) {
		require.NoError(t, err)
		nodes += stored(item)
	}
	for item, err := range table.All(t.Context(), w.Deps.Table, table.Query{PK: runstate.RunKey(w.A.OrgID, id).PK, Consistent: true}) {
		require.NoError(t, err)
		rest += stored(item)
	}
	page, err := audit.List(t.Context(), w.Deps.Table, w.A.OrgID, audit.Query{ResourceType: "run", ResourceID: id, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	item, err := w.Deps.Table.Get(t.Context(), page.Items[0].Key, table.Consistent)
	require.NoError(t, err)
	rest += stored(item)
	t.Logf("a run: %d bytes, its audit entry among them: %d; a task: %d bytes", rest, stored(item), nodes/tasks)
	assert.InDelta(t, runBytes, rest, 0.1*runBytes)
	assert.InDelta(t, taskBytes, nodes/tasks, 0.1*taskBytes)
}
