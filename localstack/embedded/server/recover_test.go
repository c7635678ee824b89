package server

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// watched records the pages read of the due index, and the reconciliations,
// each of which moves the entry of its run.
type watched struct {
	table.Table
	pages []int
	parts map[string]bool
	looks map[table.Key]int
}

// Query implements table.Table.
func (w *watched) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := w.Table.Query(ctx, q)
	if q.Index == table.Due {
		w.pages = append(w.pages, len(page.Items))
		w.parts[q.PK] = true
	}
	return page, err
}

// Update implements table.Table.
func (w *watched) Update(ctx context.Context, u table.Update) (table.Item, error) {
	w.looks[u.Key]++
	return w.Table.Update(ctx, u)
}

func TestEveryLiveRunIsReconciledOnce(t *testing.T) {
	t.Parallel()
	const live, page = 100, 3
	env := localtest.New(t, flows.Spec, runs.Spec)
	flow := map[string]any{
		"flow_name": "f", "flow_version": "1",
		"flow_spec": map[string]any{"tasks": []any{map[string]any{"name": "w", "type": "wait", "config": map[string]any{"seconds": 1}}}},
	}
	env.Do(t, env.A.Key, http.MethodPost, "/flows", flow).Require(t, http.StatusOK)
	var ids []string
	for range live {
		run := env.Do(t, env.A.Key, http.MethodPost, "/runs", map[string]any{"flow_name": "f", "flow_version": "1"})
		ids = append(ids, run.Require(t, http.StatusOK).String(t, "run_id"))
	}
	env.Clock.Advance(time.Second)
	for i := range live { // other due entries are not read
		r := reminders.New(reminders.Reminder, env.A.OrgID, fmt.Sprint("r", i), env.Clock.Now(), 0)
		require.NoError(t, env.Deps.Table.Put(t.Context(), table.Put{Item: r}))
	}
	w := &watched{Table: env.Deps.Table, looks: map[table.Key]int{}, parts: map[string]bool{}}
	deps := env.Deps
	deps.Table = w
	require.NoError(t, reconcileLiveRuns(t.Context(), deps, page))
	for _, id := range ids {
		assert.Equal(t, 1, w.looks[runstate.RunKey(env.A.OrgID, id)], id)
		run, err := runstate.GetRun(t.Context(), env.Deps.Table, env.A.OrgID, id, time.Now())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, run.DueSK, fmt.Sprintf("%013d", env.Clock.Now().Add(50*time.Second).UnixMilli()))
	}
	assert.Greater(t, len(w.pages), live/page)
	assert.Less(t, len(w.pages), live)
	assert.Len(t, w.parts, runstate.DueShards)
	for _, n := range w.pages {
		assert.LessOrEqual(t, n, page)
	}
}

// stuck is a table whose reads of the due index block until ctx ends.
type stuck struct{ table.Table }

// Query implements table.Table.
func (stuck) Query(ctx context.Context, _ table.Query) (table.Page, error) {
	<-ctx.Done()
	return table.Page{}, ctx.Err()
}

func TestRecoveryStopsWithServer(t *testing.T) {
	t.Parallel()
	deps := localtest.New(t).Deps
	deps.Table = stuck{deps.Table}
	stop := recovering(deps)
	stop()
	stop()
}
