package artifacts_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/artifacts"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/schedule"
)

func breakable(t *testing.T) (*localtest.Env, *registrytest.Faults) {
	t.Helper()
	var faults *registrytest.Faults
	env := localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		faults = registrytest.Wrap(inner)
		return faults
	}}, artifacts.Spec)
	return env, faults
}

func count(t *testing.T, env *localtest.Env, action string) (n int) {
	t.Helper()
	for _, r := range env.Audit(t, env.A.OrgID) {
		if r.Action == action {
			n++
		}
	}
	return n
}

// everyCrash calls try with each crash until the call under test makes no such
// write any more, which try reports.
func everyCrash(t *testing.T, try func(n int, fault registrytest.Fault) (met bool)) {
	t.Helper()
	for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
		n := 0
		for try(n, fault) {
			n++
		}
		require.Positive(t, n, "the call wrote nothing")
	}
}

func TestCompletionSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(n int, fault registrytest.Fault) bool {
		env, faults := breakable(t)
		data := registrytest.Zip(t, files)
		begun := initiate(t, env, "1", len(data)).Require(t, 200)
		body := completion(t, begun, "1", send(t, begun, data), object{"schedule": "30 6 * * *", "timezone": "Europe/Berlin"})
		faults.Break(n, fault)
		first := complete(t, env, body)
		met := faults.Heal()
		if !met {
			first.Require(t, 200)
		}
		again := complete(t, env, body).Require(t, 200)
		assert.Equal(t, registry.ArtifactURI(begun.String(t, "artifact_key")), again.String(t, "artifact_store_uri"))
		assert.Equal(t, "1", again.Get(t, "deployment_version").(interface{ String() string }).String())
		assert.Equal(t, 1, count(t, env, "deploy"))
		id := again.String(t, "schedule_id")
		set, err := table.Load[schedule.Schedule](t.Context(), env.Deps.Table, table.Key{PK: env.A.OrgID + "#schedules", SK: id})
		require.NoError(t, err)
		assert.Equal(t, []any{"deployment.etl-prod", "30 6 * * *", "Europe/Berlin", "etl"}, []any{id, *set.CronExpression, set.Timezone, set.FlowName})
		assert.Equal(t, fmt.Sprint(*set.NextRunEpoch), fmt.Sprint(again.Get(t, "next_run_epoch")))
		assert.True(t, stored(t, env, begun.String(t, "artifact_key")))
		v, err := registry.Latest(t.Context(), env.Deps.Table, env.A.OrgID, "etl")
		require.NoError(t, err)
		assert.Equal(t, "1", v.FlowVersion)
		return met
	})
}

func TestRejectionSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(n int, fault registrytest.Fault) bool {
		env, faults := breakable(t)
		data := []byte("no zip")
		begun := initiate(t, env, "1", len(data)).Require(t, 200)
		body := completion(t, begun, "1", send(t, begun, data))
		faults.Break(n, fault)
		complete(t, env, body)
		met := faults.Heal()
		complete(t, env, body).Require(t, 422)
		assert.False(t, stored(t, env, begun.String(t, "artifact_key")))
		return met
	})
}

func TestInitiationSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(n int, fault registrytest.Fault) bool {
		env, faults := breakable(t)
		data := registrytest.Zip(t, files)
		initiate(t, env, "1", len(data)+1).Require(t, 200) // to be aborted first
		faults.Break(n, fault)
		initiate(t, env, "1", len(data))
		met := faults.Heal()
		begun := initiate(t, env, "1", len(data)).Require(t, 200)
		complete(t, env, completion(t, begun, "1", send(t, begun, data))).Require(t, 200)
		assert.Equal(t, 1, count(t, env, "abort"))
		assert.Equal(t, 2, count(t, env, "initiate"))
		return met
	})
}

func TestAbortSurvivesCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(n int, fault registrytest.Fault) bool {
		env, faults := breakable(t)
		data := registrytest.Zip(t, files)
		begun := initiate(t, env, "1", len(data)).Require(t, 200)
		parts := send(t, begun, data)
		faults.Break(n, fault)
		abort(t, env, env.A.Key, begun)
		met := faults.Heal()
		abort(t, env, env.A.Key, begun).Require(t, 204)
		assert.Equal(t, 1, count(t, env, "abort"))
		complete(t, env, completion(t, begun, "1", parts)).Require(t, 409)
		return met
	})
}

func TestConcurrentCompletionsRespondAlike(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, artifacts.Spec)
	data := registrytest.Zip(t, files)
	begun := initiate(t, env, "1", len(data)).Require(t, 200)
	body := completion(t, begun, "1", send(t, begun, data))
	answers := make([]*localtest.Response, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = env.Do(t, env.A.Key, "POST", "/artifacts/complete", body) })
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, 200, a.Code, "%s", a.Body)
		assert.JSONEq(t, string(answers[0].Body), string(a.Body))
	}
	assert.Equal(t, 1, count(t, env, "deploy"))
}

func TestConcurrentCompletionAndAbortHaveOneResult(t *testing.T) {
	t.Parallel()
	for range 8 {
		env := localtest.New(t, artifacts.Spec)
		data := registrytest.Zip(t, files)
		begun := initiate(t, env, "1", len(data)).Require(t, 200)
		body := completion(t, begun, "1", send(t, begun, data))
		var done, dropped *localtest.Response
		var wg sync.WaitGroup
		wg.Go(func() { done = env.Do(t, env.A.Key, "POST", "/artifacts/complete", body) })
		wg.Go(func() { dropped = abort(t, env, env.A.Key, begun) })
		wg.Wait()
		_, err := registry.GetFlow(t.Context(), env.Deps.Table, env.A.OrgID, "etl")
		if done.Code == 200 {
			require.NoError(t, err)
			assert.Equal(t, 409, dropped.Code, "%s", dropped.Body)
			assert.True(t, stored(t, env, begun.String(t, "artifact_key")), "the registered version has its code")
			continue
		}
		assert.Equal(t, 409, done.Code, "%s", done.Body)
		assert.Equal(t, 204, dropped.Code, "%s", dropped.Body)
		assert.Error(t, err)
		assert.False(t, stored(t, env, begun.String(t, "artifact_key")))
	}
}
