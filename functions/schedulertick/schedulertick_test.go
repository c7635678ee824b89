package schedulertick_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/localstack/proof/localtest"
	"millrace/shared/engine"
	"millrace/shared/errs"
	"millrace/shared/fn"
	"millrace/shared/queue"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// due stores n live runs that fell due a while ago, and one that did not yet.
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
			Key: runstate.RunKey(env.A.OrgID, id), DueEntry: runstate.DueAt(env.A.OrgID, id, at),
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

// looks takes the look messages off the queue, by run.
func looks(t *testing.T, env *localtest.Env) map[string]int {
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
			assert.Equal(t, events.RunLook, run.Kind)
			assert.Equal(t, env.A.OrgID, run.Org)
			assert.Equal(t, env.A.OrgID, m.Group)
			got[run.Run]++
		}
	}
}

func TestATickHasWhatIsDueLookedAt(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 40)
	result, err := invoke(t, env.Deps, `{"event_type":"scheduler_tick","max_due":100}`)
	require.NoError(t, err)
	assert.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: 40, Triggered: 40}, result)
	got := looks(t, env)
	assert.Len(t, got, 40)
	assert.NotContains(t, got, "run40", "not due yet")
	env.Clock.Advance(2 * time.Minute)
	result, err = invoke(t, env.Deps, `{"event_type":"scheduler_tick"}`)
	require.NoError(t, err)
	assert.Equal(t, 41, result.Checked, "what was not postponed is due again")
}

func TestATickSeesToNoMoreThanItIsTold(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	due(t, env, 10)
	result, err := invoke(t, env.Deps, `{"event_type":"scheduler_tick","max_due":3}`)
	require.NoError(t, err)
	assert.Equal(t, 3, result.Checked)
	assert.Len(t, looks(t, env), 3)
}

func TestWhatIsNoTickIsRefused(t *testing.T) {
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
	assert.Empty(t, looks(t, env))
}

// refusing is queues that take nothing.
type refusing struct{ queue.Queues }

func (refusing) Send(context.Context, string, ...queue.Message) error { return errors.New("down") }

func TestWhatFailsIsCountedAndStaysDue(t *testing.T) {
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
