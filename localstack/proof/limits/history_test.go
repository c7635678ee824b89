package limits

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/runs"
	"millrace/functions/schedulertick"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/runstate"
)

// TestHistoryCostsNothing grows the history of runs: a tick, a page of runs and
// one run cost exactly the same read units as before.
func TestHistoryCostsNothing(t *testing.T) {
	var meter table.Meter
	var store table.Table
	env := localtest.Open(t, localtest.Options{
		Blob: &blobtest.Memory{},
		Wrap: func(inner table.Table) table.Table {
			store = inner
			return table.Metered(inner, &meter)
		},
	}, runs.Spec)
	registrytest.Register(t, registrytest.Store(store, env.Deps.Blob, env.Clock), env.A.OrgID, "f", "1", `{"tasks":[{"name":"t","type":"transform","config":{"expression":"1"}}]}`, "")
	tick := schedulertick.Spec.Handle(env.Deps)
	payload, err := json.Marshal(events.SchedulerTick{EventType: events.TickType})
	require.NoError(t, err)
	first := env.Do(t, env.A.Key, http.MethodPost, "/runs", object{"flow_name": "f", "flow_version": "1"}).Require(t, http.StatusOK).String(t, "run_id")
	model, err := runstate.GetRun(t.Context(), store, env.A.OrgID, first, time.Now())
	require.NoError(t, err)

	cost := func(id string) map[string]float64 {
		out := map[string]float64{}
		for name, do := range map[string]func(){
			"tick": func() {
				_, err := tick(t.Context(), payload)
				require.NoError(t, err)
			},
			"page of runs": func() {
				assert.Len(t, env.Do(t, env.A.Key, http.MethodGet, "/runs?limit=50", nil).Require(t, http.StatusOK).Items(t), 50)
			},
			"one run": func() { env.Do(t, env.A.Key, http.MethodGet, "/runs/"+id, nil).Require(t, http.StatusOK) },
		} {
			meter.Reset()
			do()
			out[name] = meter.Usage().Total().Read
		}
		return out
	}
	began, few, many := time.Now(), 200, size(5000, 1_000_000)
	id := fill(t, store, model, 0, few)
	before := cost(id)
	id = fill(t, store, model, few, many)
	filled := time.Since(began)
	assert.Equal(t, before, cost(id))
	t.Logf("%d runs made in %s; read units %v", many, filled.Round(time.Second), before)
}

// fill creates finished runs, a second apart, and returns the id of the last.
func fill(t *testing.T, store table.Table, model runstate.Run, from, to int) (id string) {
	t.Helper()
	now := model.CreatedAt.Time().Add(-time.Duration(to) * time.Second)
	var writes []table.Write
	for i := from; i < to; i++ {
		at := now.Add(time.Duration(i) * time.Second)
		id = ids.New(at)
		run := model
		run.Key, run.ID, run.Slug = runstate.RunKey(run.Org, id), id, fmt.Sprint("run-", i)
		run.DueEntry, run.ListEntries = table.DueEntry{}, runstate.Lists(run.Org, run.Flow, run.Environment, id)
		run.Status, run.Archived = engine.Succeeded, true
		run.CreatedAt, run.StartedAt, run.EndedAt = clock.ToMillis(at), clock.ToMillis(at), clock.ToMillis(at.Add(time.Second))
		writes = append(writes, table.Put{Item: run}, table.Put{Item: runstate.InputItem{Key: runstate.InputKey(run.Org, id), Data: `{"parameters":{}}`}})
		if len(writes) == 1000 || i == to-1 {
			require.NoError(t, store.BatchWrite(t.Context(), writes))
			writes = writes[:0]
		}
	}
	return id
}
