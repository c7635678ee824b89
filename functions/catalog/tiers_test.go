package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// TestLackingTierIsRefused asks a deployment with two tiers for a third, in
// every operation that takes one.
func TestLackingTierIsRefused(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	spec := object{"tasks": []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}}}
	flow := func(version string) object {
		return object{"flow_name": "f", "flow_version": version, "flow_spec": spec}
	}
	whole := localtest.New(t, catalog.All()...)
	whole.Do(t, whole.A.Key, "POST", "/flows", flow("1")).Require(t, 200)
	whole.Do(t, whole.A.Key, "POST", "/deployments", object{"deployment_name": "d", "flow_name": "f", "flow_version": "1"}).Require(t, 200)
	whole.Do(t, whole.A.Key, "POST", "/deployments", object{"deployment_name": "big", "flow_name": "f", "flow_version": "1", "execution_mode": "large"}).Require(t, 200)

	env := localtest.Open(t, localtest.Options{
		Table: whole.Deps.Table, Queues: whole.Deps.Queues, Blob: whole.Deps.Blob, Config: fn.Config{Tiers: tier.Set{tier.Nano, tier.Medium}},
	}, catalog.All()...)
	env.A = whole.A
	audited := env.AuditCount(t, env.A.OrgID)
	const says = "large is not available in this deployment, which has nano, medium"
	with := func(body, more object) object {
		out := object{}
		for _, one := range []object{body, more} {
			for key, value := range one {
				out[key] = value
			}
		}
		return out
	}
	large := object{"execution_mode": "large"}
	for _, c := range []struct {
		method, path string
		body         object
		code         int
	}{
		{"POST", "/flows", with(flow("2"), large), 400},
		{"POST", "/flows", object{"flow_name": "f", "flow_version": "3", "flow_spec": object{"tasks": []object{
			{"name": "one", "type": "python", "entrypoint": "m:f", "tier": "large"},
		}}}, 422},
		{"POST", "/deployments", with(large, object{"deployment_name": "d", "flow_name": "f", "flow_version": "1"}), 400},
		{"PUT", "/deployments/d/settings", large, 400},
		{"POST", "/schedules", with(large, object{"flow_name": "f", "flow_version": "1", "mode": "interval", "interval_seconds": 60}), 400},
		{"POST", "/runs", with(large, object{"deployment": "d"}), 400},
		{"POST", "/runs", object{"deployment": "big"}, 409}, // from before the tier was removed
	} {
		res := env.Do(t, env.A.Key, c.method, c.path, c.body).Require(t, c.code)
		assert.Contains(t, string(res.Body), says, "%s %s", c.method, c.path)
	}
	assert.Equal(t, audited, env.AuditCount(t, env.A.OrgID), "nothing was changed")

	env.Do(t, env.A.Key, "POST", "/runs", object{"deployment": "big", "execution_mode": "medium"}).Require(t, 200)
	res := env.Do(t, env.A.Key, "GET", "/backends", nil).Require(t, 200)
	modes := res.Get(t, "items", 0, "execution_modes").([]any)
	require.Len(t, modes, 2)
	assert.Equal(t, "medium", modes[1].(map[string]any)["name"])
}

// TestMessagesOfLackingTierGoToDefault: nobody receives from a removed tier's
// queue.
func TestMessagesOfLackingTierGoToDefault(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	service, err := catalog.Assemble(catalog.All(), fn.Deps{
		Table: env.Deps.Table, Queues: env.Deps.Queues, Clock: clock.System{}, Log: env.Deps.Log,
		Config: fn.Config{Tiers: tier.Set{tier.Nano, tier.Small}},
	}, catalog.Settings{CursorKeys: keyring.Static([]byte("a key that signs the cursors of tests"))})
	require.NoError(t, err)
	for name, want := range map[string]string{"tasks-large": "tasks-nano", "tasks-small": "tasks-small", events.Runs: events.Runs} {
		before, err := env.Deps.Queues.Depth(t.Context(), want)
		require.NoError(t, err)
		require.NoError(t, service.Deps.Queues.Send(t.Context(), name, queue.Message{Body: []byte("{}"), Group: env.A.OrgID}))
		after, err := service.Deps.Queues.Depth(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, before+1, after, name)
		got, err := env.Deps.Queues.Depth(t.Context(), want)
		require.NoError(t, err)
		assert.Equal(t, after, got, name)
	}
}
