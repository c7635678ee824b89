package schedulertick_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

// due stores n overdue live runs, and one that is not due yet.
func due(t *testing.T, env *localtest.Env, n int) {
	t.Helper()
	now := env.Clock.Now()
	for i := range n + 1 {
		id := fmt.Sprintf("run%d", i)
		at := now.Add(-time.Duration(i) * time.Second)
		if i == n {
			at = now.Add(time.Minute)
		}
		run := runstate.Run{
			Key: runstate.RunKey(env.A.OrgID, id), DueEntry: runstate.DueAt(env.A.OrgID, id, 1, at),
			Org: env.A.OrgID, ID: id, Mode: "nano", Status: engine.Running,
		}
		require.NoError(t, env.Deps.Table.Put(t.Context(), table.Put{Item: run}))
	}
}

func invoke(t *testing.T, d fn.Deps, payload string) (events.SchedulerTickResult, error) {
	t.Helper()
	out, err := schedulertick.Spec.Handle(d)(t.Context(), json.RawMessage(payload))
	result, _ := out.(events.SchedulerTickResult)
	return result, err
}

// reconciliations receives the reconciliation messages from the queue and
// counts them by run.
func reconciliations(t *testing.T, env *localtest.Env) map[string]int {
	t.Helper()
	got := map[string]int{}
	for {
		batch, err := env.Deps.Queues.Receive(t.Context(), events.Runs, queue.MaxBatch, 0)
		require.NoError(t, err)
		if len(batch) == 0 {
			return got
		}
		for _, m := range batch {
			var run events.Run
			require.NoError(t, json.Unmarshal(m.Body, &run))
			assert.Equal(t, events.RunReconcile, run.Kind)
			assert.Equal(t, env.A.OrgID, run.Org)
			assert.Equal(t, env.A.OrgID, m.Group)
			got[run.Run]++
			require.NoError(t, env.Deps.Queues.Delete(t.Context(), events.Runs, m.Receipt))
		}
	}
}

func TestTickSendsReconciliationOfDueRuns(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 40)
	result, err := invoke(t, env.Deps, `{"event_type":"scheduler_tick","max_due":100}`)
	require.NoError(t, err)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 40, Triggered: 40}, result)
	got := reconciliations(t, env)
	assert.Len(t, got, 40)
	assert.NotContains(t, got, "run40", "not due yet")
	env.Clock.Advance(time.Minute)
	result, err = invoke(t, env.Deps, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, 1, result.Checked, "the others' looks are under way")
	assert.Len(t, reconciliations(t, env), 1)
	env.Clock.Advance(5 * time.Minute)
	result, err = invoke(t, env.Deps, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, 41, result.Checked, "unhandled runs are due again")
}

func TestTickHandlesAtMostMaxDue(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 10)
	result, err := invoke(t, env.Deps, `{"event_type":"scheduler_tick","max_due":3}`)
	require.NoError(t, err)
	assert.Equal(t, 3, result.Checked)
	assert.Len(t, reconciliations(t, env), 3)
}

func TestInvalidTickIsRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 1)
	for name, payload := range map[string]string{
		"another event":       `{"event_type":"other"}`,
		"no event":            `{}`,
		"no JSON":             `tick`,
		"a time in the cloud": `{"event_type":"scheduler_tick","now":"2026-01-01T00:00:00Z"}`,
	} {
		_, err := invoke(t, env.Deps, payload)
		assert.Equal(t, errs.Invalid, errs.CodeOf(err), name)
	}
	assert.Empty(t, reconciliations(t, env))
}

// refusing is queues whose Send fails.
type refusing struct{ queue.Queues }

func (refusing) Send(context.Context, string, ...queue.Message) error { return errors.New("down") }

func TestFailedEntryIsCountedAndStaysDue(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 5)
	broken := env.Deps
	broken.Queues = refusing{env.Deps.Queues}
	result, err := invoke(t, broken, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 5, Failures: 5}, result)
	result, err = invoke(t, env.Deps, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, 5, result.Triggered)
}

// TestBacklogIsHandledFairly checks that each of more due runs than a tick
// handles gets its turn.
func TestBacklogIsHandledFairly(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 41)
	got := map[string]int{}
	for range 30 {
		result, err := invoke(t, env.Deps, `{"event_type":"scheduler_tick","max_due":10}`)
		require.NoError(t, err)
		assert.LessOrEqual(t, result.Checked, 10)
		maps.Copy(got, reconciliations(t, env))
		env.Clock.Advance(time.Minute)
	}
	assert.Len(t, got, 42)
}

// broken is a table that cannot read some shards of the due index, and records
// which are read.
type broken struct {
	table.Table
	down func(partition string) bool
	mu   sync.Mutex
	read []string
}

var errShard = errors.New("shard down")

func (b *broken) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if q.Index == table.Due {
		b.mu.Lock()
		b.read = append(b.read, q.PK)
		b.mu.Unlock()
		if b.down(q.PK) {
			return table.Page{}, errShard
		}
	}
	return b.Table.Query(ctx, q)
}

func TestFailedShardDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 40)
	bad := runstate.DuePartition(3)
	b := &broken{Table: env.Deps.Table, down: func(partition string) bool { return partition == bad }}
	d := env.Deps
	d.Table = b
	in := 0
	for i := range 40 {
		if runstate.DueAt(env.A.OrgID, fmt.Sprintf("run%d", i), 1, time.Time{}).DuePK == bad {
			in++
		}
	}
	require.Positive(t, in)
	result, err := invoke(t, d, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 40 - in, Triggered: 40 - in, Failures: 1}, result)
	assert.Len(t, b.read, runstate.DueShards)
	assert.Len(t, reconciliations(t, env), 40-in)

	b.down = func(string) bool { return false }
	result, err = invoke(t, d, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: in, Triggered: in}, result)

	b.down = func(string) bool { return true }
	_, err = invoke(t, d, `{"event_type":"scheduler_tick"}`)
	require.ErrorIs(t, err, errShard, "nothing could be read")
}

// TestOrderOfShardsRotates checks that a tick that may handle less than one
// entry per shard begins with other shards than the last one.
func TestOrderOfShardsRotates(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 40)
	b := &broken{Table: env.Deps.Table, down: func(string) bool { return false }}
	d := env.Deps
	d.Table = b
	first := map[string]bool{}
	for range runstate.DueShards {
		b.read = nil
		result, err := invoke(t, d, `{"event_type":"scheduler_tick","max_due":1}`)
		require.NoError(t, err)
		require.Equal(t, 1, result.Triggered)
		first[b.read[0]] = true
		env.Clock.Advance(time.Minute)
	}
	assert.Len(t, first, runstate.DueShards)
}

// batched counts the requests to the queues.
type batched struct {
	queue.Queues
	mu    sync.Mutex
	sends []int
	then  func()
}

func (b *batched) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sends = append(b.sends, len(msgs))
	if b.then != nil {
		b.then()
	}
	return b.Queues.Send(ctx, name, msgs...)
}

func TestReconciliationsAreSentInBatches(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 41)
	d := env.Deps
	queues := &batched{Queues: d.Queues}
	d.Queues = queues
	_, err := invoke(t, d, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	slices.Sort(queues.sends)
	assert.Equal(t, []int{1, 10, 10, 10, 10}, queues.sends)
}

// TestEntryMovedMeanwhileIsKept checks that the due time set by a concurrent
// reconciliation is kept.
func TestEntryMovedMeanwhileIsKept(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 1)
	soon := runstate.DueAt(env.A.OrgID, "run0", 1, env.Clock.Now().Add(time.Second))
	key := runstate.RunKey(env.A.OrgID, "run0")
	d := env.Deps
	d.Queues = &batched{Queues: d.Queues, then: func() {
		_, err := env.Deps.Table.Update(t.Context(), table.Update{Key: key, Do: []table.Action{table.Set(runstate.DueSK, soon.DueSK)}})
		assert.NoError(t, err)
	}}
	_, err := invoke(t, d, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	run, err := runstate.GetRun(t.Context(), env.Deps.Table, env.A.OrgID, "run0", time.Now())
	require.NoError(t, err)
	assert.Equal(t, soon, run.DueEntry)
}

// slow is queues with a slow Send.
type slow struct{ queue.Queues }

func (s slow) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	select {
	case <-time.After(9 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Queues.Send(ctx, name, msgs...)
}

// TestTickStopsAtItsTimeLimit checks that the rest is left for the next tick.
func TestTickStopsAtItsTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := localtest.New(t)
		due(t, env, 4000)
		d := env.Deps
		d.Queues = slow{d.Queues}
		began := time.Now()
		result, err := invoke(t, d, `{"event_type":"scheduler_tick"}`)
		require.NoError(t, err)
		assert.Less(t, time.Since(began), schedulertick.Spec.Timeout)
		assert.Zero(t, result.Failures)
		assert.Equal(t, result.Checked, result.Triggered)
		assert.Greater(t, result.Triggered, 500)
		assert.Less(t, result.Triggered, 4000)
		assert.Len(t, reconciliations(t, env), result.Triggered)
	})
}
