package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runstate"
)

// TestLateWritesChangeNothing lets a worker write to a run that has changed
// since it was read: nothing that has ended or was stopped is overwritten.
func TestLateWritesChangeNothing(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	finish := func(d *driver, worst engine.Outcome) error {
		onFailure, err := d.lifecycle.finish(t.Context(), worst)
		assert.False(t, onFailure)
		return err
	}
	steps := map[string]func(d *driver) error{
		"end":                      func(d *driver) error { return finish(d, engine.OutcomeOK) },
		"failed end":               func(d *driver) error { return finish(d, engine.OutcomeFailed) },
		"deadline":                 func(d *driver) error { return d.lifecycle.fence(t.Context(), now) },
		"reconciliation postponed": func(d *driver) error { return d.postpone(t.Context(), now, ReconcileEvery) },
	}
	cancelled := runstate.Run{Status: engine.Cancelled, Fence: runstate.FenceCancel, EndedAt: 5, Archived: true}
	for _, c := range []struct {
		name string
		run  runstate.Run
		step string
	}{
		{"a run that timed out keeps its error", runstate.Run{Status: engine.TimedOut, EndedAt: 5, Archived: true, Error: "late"}, "failed end"},
		{"a cancelled run stays cancelled", cancelled, "end"},
		{"a cancelled run does not fail", cancelled, "failed end"},
		{"a run ends once", runstate.Run{Status: engine.Succeeded, EndedAt: 5, Archived: true}, "end"},
		{"a deadline is not a cancel", runstate.Run{Status: engine.CancellationRequested, Fence: runstate.FenceCancel}, "deadline"},
		{"an ended run passes no deadline", runstate.Run{Status: engine.Succeeded, EndedAt: 5, Archived: true}, "deadline"},
		{"an ended run is not due", cancelled, "reconciliation postponed"},
	} {
		tbl := memory.Table(t, clock.System{})
		c.run.Key, c.run.Org, c.run.ID = runstate.RunKey("org", "run"), "org", "run"
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: c.run}))
		before, err := tbl.Get(t.Context(), c.run.Key)
		require.NoError(t, err)
		s := contender(tbl, "late", now)
		s.run = &runstate.Run{Org: "org", ID: "run", Status: engine.Running} // as it was read
		flow := &flowspec.Flow{Spec: flowspec.Spec{Tasks: []flowspec.Task{{Name: "a"}}, OnFailure: &flowspec.Task{Name: "page"}}}
		s.flow = &compiled{Flow: flow, plan: engine.NewPlan(make([]engine.TaskDef, 1))}
		d := newDriver(s)
		require.NoError(t, steps[c.step](d), c.name)
		after, err := tbl.Get(t.Context(), c.run.Key)
		require.NoError(t, err)
		assert.Equal(t, before, after, c.name)
		assert.Empty(t, d.graph.ready, c.name)
	}
}
