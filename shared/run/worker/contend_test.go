package worker

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// sentAgain is a table that gets every update twice, as from a client that lost
// the first response.
type sentAgain struct{ table.Table }

func (s sentAgain) Update(ctx context.Context, u table.Update) (table.Item, error) {
	_, _ = s.Table.Update(ctx, u)
	return s.Table.Update(ctx, u)
}

// contender returns a session of another process over a table.
func contender(tbl table.Table, boot string, now time.Time) *session {
	fixed := clock.Func(func() time.Time { return now })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	logs := &runlog.Store{Table: tbl, Blob: &blobtest.Memory{}, Clock: fixed, Log: log}
	return New(Config{Table: tbl, Clock: fixed, Log: log, Logs: logs, ProcessID: boot, Exclusive: true}).session("org", "run")
}

// left stores the item of a task whose worker died, and returns it.
func left(t *testing.T, tbl table.Table, until time.Time) *runstate.Node {
	item := runstate.Node{
		Key: runstate.NodeKey("org", "run", 0), Status: engine.Running, Attempt: 1, Nonce: "gone.1", LeaseUntil: millis(until),
	}
	require.NoError(t, tbl.Put(t.Context(), table.Put{Item: item}))
	return &item
}

func stored(t *testing.T, tbl table.Table) *runstate.Node {
	item, err := runstate.LoadNode(t.Context(), tbl, "org", "run", 0)
	require.NoError(t, err)
	return item
}

// TestOneWorkerTakesOver checks that of two workers that have read the same
// void lease one takes it over, even if the other tries at the same moment.
func TestOneWorkerTakesOver(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	tbl := memory.Table(t, clock.System{})
	old := left(t, tbl, now.Add(Lease))
	mine, _, err := newDriver(contender(tbl, "new", now)).attempts.takeOver(t.Context(), ready{attempt: 1}, old, now)
	require.NoError(t, err)
	require.NotNil(t, mine)
	assert.Equal(t, 2, mine.Attempt)
	none, other, err := newDriver(contender(tbl, "new", now)).attempts.takeOver(t.Context(), ready{attempt: 1}, old, now)
	require.NoError(t, err)
	assert.Nil(t, none, "the lease is another's")
	assert.Equal(t, mine.Nonce, other.Nonce)
	assert.Equal(t, 1, stored(t, tbl).Lost)

	// A worker whose write was sent twice has the lease nevertheless.
	tbl = memory.Table(t, clock.System{})
	old = left(t, tbl, now)
	mine, _, err = newDriver(contender(sentAgain{tbl}, "new", now)).attempts.takeOver(t.Context(), ready{attempt: 1}, old, now)
	require.NoError(t, err)
	require.NotNil(t, mine)
	assert.Equal(t, mine.Nonce, stored(t, tbl).Nonce)
	assert.Equal(t, 1, stored(t, tbl).Lost)
}

// TestTaskThatKillsItsWorkersIsDelayed checks that from the third lost lease
// the next attempt is delayed, with the reason in its item, and that its
// message is sent once, even if the response to the write was lost.
func TestTaskThatKillsItsWorkersIsDelayed(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	for name, wrap := range map[string]func(table.Table) table.Table{
		"written":    func(tbl table.Table) table.Table { return tbl },
		"sent again": func(tbl table.Table) table.Table { return sentAgain{tbl} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tbl := memory.Table(t, clock.System{})
			old := left(t, tbl, now)
			_, err := tbl.Update(t.Context(), table.Update{Key: old.Key, Do: []table.Action{table.Set(runstate.NodeLost, FewLost-1)}})
			require.NoError(t, err)
			old = stored(t, tbl)
			s := contender(wrap(tbl), "new", now)
			at := clock.Func(func() time.Time { return now })
			queues := memory.Queues(t, at, []queue.Definition{{Name: events.Tasks("nano"), Visibility: time.Minute}})
			s.Worker.Queues = queues
			mine, other, err := newDriver(s).attempts.takeOver(t.Context(), ready{attempt: 1}, old, now)
			require.NoError(t, err)
			assert.Nil(t, mine)
			held := stored(t, tbl)
			assert.Equal(t, held.Due, other.Due)
			assert.Equal(t, engine.Queued, held.Status)
			assert.Equal(t, millis(now.Add(HoldBack)), held.Due)
			assert.Equal(t, []int{2, FewLost}, []int{held.Attempt, held.Lost})
			assert.Len(t, held.History, 1)
			assert.Contains(t, held.Reason, "lost 3 times")
			stats, err := queues.Stats(t.Context(), events.Tasks("nano"))
			require.NoError(t, err)
			assert.Equal(t, 1, stats.Visible+stats.Delayed+stats.InFlight)
		})
	}
}

// TestStopLeavesRenewedLease checks that a stopped run cancels no attempt whose
// lease was renewed, or taken over, since it was read.
func TestStopLeavesRenewedLease(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	tbl := memory.Table(t, clock.System{})
	s := contender(tbl, "new", now)
	for name, c := range map[string]struct {
		change []table.Action
		runs   bool
	}{
		"gone":       {[]table.Action{table.Set(runstate.NodeLost, 0)}, false},
		"renewed":    {[]table.Action{table.Set(runstate.NodeLease, int64(millis(now.Add(Lease))))}, true},
		"taken over": {[]table.Action{table.Set(runstate.NodeNonce, "new.1")}, true},
		"finished":   {[]table.Action{table.Set(runstate.NodeStatus, string(engine.Succeeded)), table.Remove(runstate.NodeLease)}, false},
	} {
		old := left(t, tbl, now)
		_, err := tbl.Update(t.Context(), table.Update{Key: old.Key, Do: c.change})
		require.NoError(t, err)
		before := stored(t, tbl)
		runs, err := newDriver(s).lifecycle.takeBack(t.Context(), 0, old, runstate.FenceCancel)
		require.NoError(t, err, name)
		assert.Equal(t, c.runs, runs, name)
		if name != "gone" {
			assert.Equal(t, before, stored(t, tbl), name)
			continue
		}
		assert.Equal(t, engine.Cancelled, stored(t, tbl).Status)
		assert.Empty(t, stored(t, tbl).LeaseUntil)
	}
}

// TestLeasesOfEarlierProcess checks that a sole process takes over the leases
// of the earlier one at once, and that one of several waits until a lease
// expires.
func TestLeasesOfEarlierProcess(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	tbl := memory.Table(t, clock.System{})
	left(t, tbl, now.Add(Lease))
	several := contender(tbl, "new", now)
	several.Exclusive = false
	mine, other, err := newDriver(several).attempts.claim(t.Context(), ready{attempt: 1})
	require.NoError(t, err)
	assert.Nil(t, mine)
	assert.Equal(t, "gone.1", other.Nonce)
	mine, _, err = newDriver(contender(tbl, "new", now)).attempts.claim(t.Context(), ready{attempt: 1})
	require.NoError(t, err)
	require.NotNil(t, mine)
	assert.Equal(t, 2, mine.Attempt)
}

// TestPausedWorkerDoesNotBegin checks that a claimed attempt does not begin if
// the run was stopped meanwhile, or its lease was lost; otherwise the lease is
// renewed.
func TestPausedWorkerDoesNotBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change []table.Action // of the run
		item   []table.Action
		why    string
	}{
		"on time":    {nil, nil, ""},
		"stopped":    {[]table.Action{table.Set(runstate.RunFence, runstate.FenceCancel)}, nil, runstate.FenceCancel},
		"taken over": {nil, []table.Action{table.Set(runstate.NodeNonce, "new.1")}, leaseLost},
	} {
		now := time.UnixMilli(1_000_000)
		tbl := memory.Table(t, clock.System{})
		run := runstate.Run{Key: runstate.RunKey("org", "run"), Org: "org", ID: "run", Status: engine.Running}
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: run}))
		old := left(t, tbl, now.Add(Lease))
		for key, do := range map[table.Key][]table.Action{run.Key: c.change, old.Key: c.item} {
			if do != nil {
				_, err := tbl.Update(t.Context(), table.Update{Key: key, Do: do})
				require.NoError(t, err)
			}
		}
		now = now.Add(Lease/2 + time.Second)
		s := contender(tbl, "gone", now)
		flow := &flowspec.Flow{Spec: flowspec.Spec{Tasks: []flowspec.Task{{Name: "a"}}}}
		s.flow = &compiled{Flow: flow, plan: engine.NewPlan(make([]engine.TaskDef, 1))}
		s.run = &run
		why, err := newDriver(s).attempts.fresh(t.Context(), &attempt{item: old, task: &flow.Tasks[0]})
		require.NoError(t, err, name)
		assert.Equal(t, c.why, why, name)
		if why == "" {
			assert.Equal(t, millis(now.Add(Lease)), stored(t, tbl).LeaseUntil)
		}
	}
}
