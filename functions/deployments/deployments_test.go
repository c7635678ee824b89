package deployments_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/deployments"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

type object = map[string]any

// open returns an Env whose workspace A has versions 1, 2 and 3 of flow etl.
func open(t *testing.T) *localtest.Env {
	t.Helper()
	env := localtest.New(t, deployments.Spec)
	prepare(t, env)
	return env
}

func prepare(t *testing.T, env *localtest.Env) {
	t.Helper()
	for i, version := range []string{"1", "2", "3"} {
		registrytest.Register(t, storeOf(env), env.A.OrgID, "etl", version, registrytest.Spec(i), "")
	}
}

func storeOf(env *localtest.Env) registry.Store {
	return registrytest.Store(env.Deps.Table, env.Deps.Blob, env.Clock)
}

func request(name, version string, more ...object) object {
	body := object{"deployment_name": name, "flow_name": "etl", "flow_version": version}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return body
}

func deploy(t *testing.T, env *localtest.Env, name, version string, more ...object) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/deployments", request(name, version, more...))
}

func number(t *testing.T, res *localtest.Response, path ...any) int {
	t.Helper()
	n, err := res.Get(t, path...).(json.Number).Int64()
	require.NoError(t, err)
	return int(n)
}

func audited(t *testing.T, env *localtest.Env, n int, do func()) {
	t.Helper()
	before := env.AuditCount(t, env.A.OrgID)
	do()
	assert.Equal(t, n, env.AuditCount(t, env.A.OrgID)-before, "audit entries")
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := open(t)
	for id, op := range map[string]struct {
		path string
		body any
	}{
		"deployments-put":      {"/deployments", request("d", "1")},
		"deployments-list":     {"/deployments", nil},
		"deployments-get":      {"/deployments/d", nil},
		"deployments-version":  {"/deployments/d", object{"flow_version": "2"}},
		"deployments-rollback": {"/deployments/d/rollback", nil},
		"deployments-settings": {"/deployments/d/settings", object{}},
		"deployments-delete":   {"/deployments/d", nil},
	} {
		env.CheckAccess(t, id, op.path, op.body)
	}
}

func TestChangesIncrementDeploymentVersion(t *testing.T) {
	t.Parallel()
	env := open(t)
	env.Environments(t, env.A, "prod")
	do := func(version int, method, path string, body any) *localtest.Response {
		t.Helper()
		var res *localtest.Response
		audited(t, env, 1, func() { res = env.Do(t, env.A.Key, method, path, body).Require(t, 200) })
		assert.Equal(t, version, number(t, res, "deployment_version"))
		return res
	}
	first := do(1, "POST", "/deployments", request("d", "1", object{"tags": object{"team": "data"}, "parameters": object{"n": 1}}))
	assert.Equal(t, "default", first.String(t, "environment"))
	assert.Equal(t, "nano", first.String(t, "execution_mode"))
	assert.Equal(t, "ACTIVE", first.String(t, "status"))
	assert.Nil(t, first.Get(t, "schedule"))

	assert.Equal(t, "2", do(2, "PATCH", "/deployments/d", object{"flow_version": "2"}).String(t, "flow_version"))
	set := do(3, "PUT", "/deployments/d/settings", object{
		"environment": "prod", "execution_mode": "large", "default_executor": "http", "status": "INACTIVE", "namespace": "team/x",
		"parameters": object{"n": json.Number("12345678901234567890")}, "tags": object{}, "dep_package_slugs": []string{"pandas"}, "timezone": "Europe/Berlin",
	})
	assert.Equal(t, object{"n": json.Number("12345678901234567890")}, set.Get(t, "parameters"), "digit by digit")
	assert.Equal(t, object{}, set.Get(t, "tags"))
	assert.Equal(t, []any{"pandas"}, set.Get(t, "dep_package_slugs"))
	assert.Equal(t, "2", set.String(t, "flow_version"))

	again := do(4, "POST", "/deployments", request("d", "3"))
	assert.Equal(t, "prod", again.String(t, "environment"), "what POST leaves out stays")
	assert.Equal(t, "INACTIVE", again.String(t, "status"))
	assert.JSONEq(t, string(again.Body), string(env.Do(t, env.A.Key, "GET", "/deployments/d", nil).Require(t, 200).Body))

	audited(t, env, 0, func() { // no change, so no deployment_version
		assert.Equal(t, 4, number(t, deploy(t, env, "d", "3").Require(t, 200), "deployment_version"))
		assert.Equal(t, 4, number(t, env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": "3"}).Require(t, 200), "deployment_version"))
		assert.Equal(t, 4, number(t, env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{"environment": nil, "tags": object{}}).Require(t, 200), "deployment_version"))
	})
}

func TestDeploymentRollback(t *testing.T) {
	t.Parallel()
	env := open(t)
	rollback := func(body any) *localtest.Response {
		t.Helper()
		return env.Do(t, env.A.Key, "POST", "/deployments/d/rollback", body)
	}
	deploy(t, env, "d", "1", object{"tags": object{"a": "1"}}).Require(t, 200)
	audited(t, env, 0, func() {
		rollback(nil).Require(t, 409)
		rollback(object{"deployment_version": 1}).Require(t, 409)
		rollback(object{"deployment_version": 2}).Require(t, 404)
		rollback(object{"deployment_version": 0}).Require(t, 422)
		rollback(object{"deployment_version": "1"}).Require(t, 422)
		rollback(object{"to": 1}).Require(t, 422)
	})
	deploy(t, env, "d", "2", object{"tags": object{"a": "2"}, "environment": "prod"}).Require(t, 200)
	deploy(t, env, "d", "3", object{"status": "INACTIVE"}).Require(t, 200)

	var back *localtest.Response
	audited(t, env, 1, func() { back = rollback(object{"deployment_version": 1}).Require(t, 200) })
	assert.Equal(t, []any{4, 3, 1, "1", "default", "INACTIVE"}, []any{
		number(t, back, "deployment_version"), number(t, back, "rolled_back_from"), number(t, back, "rolled_back_to"),
		back.String(t, "flow_version"), back.String(t, "environment"), back.String(t, "status"),
	}, "everything of version 1 but the status")
	assert.Equal(t, object{"a": "1"}, back.Get(t, "tags"))

	back = rollback(nil).Require(t, 200)
	assert.Equal(t, []any{5, 3, "3"}, []any{number(t, back, "deployment_version"), number(t, back, "rolled_back_to"), back.String(t, "flow_version")})
	back = rollback(object{}).Require(t, 200)
	assert.Equal(t, []any{6, 4, "1"}, []any{number(t, back, "deployment_version"), number(t, back, "rolled_back_to"), back.String(t, "flow_version")})

	// An earlier version may be deleted: inactive deployments do not keep it.
	_, err := storeOf(env).DeleteFlow(registrytest.As(env.A.OrgID), "etl")
	require.NoError(t, err)
	rollback(nil).Require(t, 409)
	env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{"status": "ACTIVE"}).Require(t, 409)
}

func TestNameCanBeUsedAgainAfterDeletion(t *testing.T) {
	t.Parallel()
	env := open(t)
	for _, version := range []string{"1", "2", "3"} {
		deploy(t, env, "d", version).Require(t, 200)
	}
	audited(t, env, 1, func() {
		res := env.Do(t, env.A.Key, "DELETE", "/deployments/d", nil).Require(t, 200)
		assert.Equal(t, object{"status": "deleted", "deployment_name": "d"}, res.Object(t))
	})
	audited(t, env, 0, func() {
		env.Do(t, env.A.Key, "DELETE", "/deployments/d", nil).Require(t, 404)
		env.Do(t, env.A.Key, "GET", "/deployments/d", nil).Require(t, 404)
		env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": "1"}).Require(t, 404)
		env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{}).Require(t, 404)
		env.Do(t, env.A.Key, "POST", "/deployments/d/rollback", nil).Require(t, 404)
	})
	assert.Equal(t, 1, number(t, deploy(t, env, "d", "2").Require(t, 200), "deployment_version"))
	env.Do(t, env.A.Key, "POST", "/deployments/d/rollback", object{"deployment_version": 3}).Require(t, 404)
}

func TestUnknownVersionIs404(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1").Require(t, 200)
	audited(t, env, 0, func() {
		env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": "9"}).Require(t, 404)
		deploy(t, env, "d", "9").Require(t, 404)
		env.Do(t, env.A.Key, "POST", "/deployments", object{"deployment_name": "e", "flow_name": "none", "flow_version": "1"}).Require(t, 404)
	})
}

func TestUnsupportedRuntimeIs400(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1").Require(t, 200)
	audited(t, env, 0, func() {
		for field, value := range map[string]string{"execution_mode": "giant", "default_executor": "cobol"} {
			deploy(t, env, "d", "1", object{field: value}).Require(t, 400)
			res := env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{field: value}).Require(t, 400)
			assert.Contains(t, res.String(t, "detail"), "Unsupported runtime")
		}
	})
}

func TestParametersAreCheckedAgainstFlow(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1", object{"parameters": object{"n": 1}}).Require(t, 200) // runs require day
	audited(t, env, 0, func() {
		for name, params := range map[string]any{
			"wrong type": object{"n": "x"},
			"reserved":   object{"__svc_run": 1},
			"too large":  object{"x": strings.Repeat("y", 257<<10)},
			"no object":  []any{},
		} {
			res := deploy(t, env, "d", "1", object{"parameters": params})
			assert.Equal(t, 422, res.Code, "%s: %.200s", name, res.Body)
			res = env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{"parameters": params})
			assert.Equal(t, 422, res.Code, "%s: %.200s", name, res.Body)
		}
	})
	// Large ones are allowed, with their history and audit entry.
	large := object{"x": strings.Repeat("y", 250<<10)}
	deploy(t, env, "d", "1", object{"parameters": large}).Require(t, 200)
	// A version whose schema rejects them cannot be selected.
	registrytest.Register(t, storeOf(env), env.A.OrgID, "etl", "strict",
		`{"parameters":{"type":"object","additionalProperties":false},"tasks":[{"name":"t","type":"wait","config":{"seconds":0}}]}`, "")
	env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": "strict"}).Require(t, 422)
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	env := open(t)
	tags := object{}
	for i := range 51 {
		tags[fmt.Sprint(i)] = ""
	}
	audited(t, env, 0, func() {
		for name, body := range map[string]any{
			"nothing":       object{},
			"a bad name":    request("a/b", "1"),
			"a hash":        request("a#b", "1"),
			"a schedule":    request("d", "1", object{"schedule": "0 0 30 2 *"}),
			"a bad zone":    request("d", "1", object{"timezone": "Mars/Base"}),
			"a bad status":  request("d", "1", object{"status": "PAUSED"}),
			"a bad place":   request("d", "1", object{"environment": "x#y"}),
			"many tags":     request("d", "1", object{"tags": tags}),
			"a bad slug":    request("d", "1", object{"dep_package_slugs": []string{"a b"}}),
			"unknown field": request("d", "1", object{"replicas": 3}),
			"broken":        `{"deployment_name":`,
		} {
			res := env.Do(t, env.A.Key, "POST", "/deployments", body)
			assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body)
		}
		env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": nil}).Require(t, 422)
		env.Do(t, env.A.Key, "PATCH", "/deployments/d", nil).Require(t, 422)
	})
	for _, limit := range []string{"0", "501", "x"} {
		env.Do(t, env.A.Key, "GET", "/deployments?limit="+limit, nil).Require(t, 422)
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	env := open(t)
	var prod []any
	for i := range 120 {
		name, environment := fmt.Sprintf("d%03d", i), "dev"
		if i%3 == 0 {
			environment = "prod"
			prod = append(prod, name)
		}
		registrytest.Deploy(t, storeOf(env), env.A.OrgID, name, "etl", "1", environment)
	}
	names := func(query string) (out []any) {
		for _, item := range env.Do(t, env.A.Key, "GET", "/deployments"+query, nil).Require(t, 200).Items(t) {
			out = append(out, item.(object)["deployment_name"])
		}
		return out
	}
	assert.Len(t, names(""), 100)
	assert.Len(t, names("?limit=500"), 120)
	assert.Equal(t, []any{"d000", "d001"}, names("?limit=2"))
	assert.Equal(t, prod, names("?environment=prod"))
	assert.Equal(t, prod[:5], names("?environment=prod&limit=5"))
	assert.Empty(t, names("?environment=none"))
	env.Do(t, env.A.Key, "PUT", "/deployments/d000/settings", object{"environment": "dev"}).Require(t, 200)
	assert.Equal(t, prod[1:], names("?environment=prod"), "it moved")
}

func TestConcurrentChangesLeaveNoGap(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1").Require(t, 200)
	const changes = 24
	var wg sync.WaitGroup
	for i := range changes {
		wg.Go(func() {
			res := env.Do(t, env.A.Key, "PUT", "/deployments/d/settings", object{"tags": object{"by": fmt.Sprint(i)}})
			assert.Equal(t, 200, res.Code, "%s", res.Body)
		})
	}
	wg.Wait()
	assert.Equal(t, changes+1, number(t, env.Do(t, env.A.Key, "GET", "/deployments/d", nil), "deployment_version"))
	now, err := registry.GetDeployment(t.Context(), env.Deps.Table, env.A.OrgID, "d")
	require.NoError(t, err)
	for v := 1; v <= changes+1; v++ {
		then, err := registry.DeploymentAt(t.Context(), env.Deps.Table, now, v)
		require.NoError(t, err)
		assert.Equal(t, v, then.DeploymentVersion)
	}
	entries := 0
	for _, r := range env.Audit(t, env.A.OrgID) {
		if r.Action == "update_settings" {
			entries++
		}
	}
	assert.Equal(t, changes, entries)
}

func TestWorkspacesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1").Require(t, 200)
	audited(t, env, 0, func() {
		for _, r := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/deployments/d", nil}, {"PATCH", "/deployments/d", object{"flow_version": "2"}},
			{"POST", "/deployments/d/rollback", nil}, {"PUT", "/deployments/d/settings", object{"status": "INACTIVE"}},
			{"DELETE", "/deployments/d", nil}, {"POST", "/deployments", request("d", "1")}, // of a flow that B does not have
		} {
			res := env.Send(t, localtest.Request{Credential: env.B.Key, OrgID: env.A.OrgID, Method: r.method, Path: r.path, Body: r.body})
			assert.Equal(t, 404, res.Code, "%s %s: %s", r.method, r.path, res.Body)
		}
		assert.Empty(t, env.Do(t, env.B.Key, "GET", "/deployments", nil).Items(t))
		assert.Empty(t, env.Do(t, env.B.Key, "GET", "/deployments?environment=default", nil).Items(t))
	})
	assert.Equal(t, 1, number(t, env.Do(t, env.A.Key, "GET", "/deployments/d", nil), "deployment_version"))
}

func TestChangesSurviveCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path string
		body         any
		action       string
		version      int
	}{
		"post":     {"POST", "/deployments", request("d", "2"), "update", 2},
		"new":      {"POST", "/deployments", request("e", "2"), "create", 0},
		"patch":    {"PATCH", "/deployments/d", object{"flow_version": "3"}, "change_version", 2},
		"settings": {"PUT", "/deployments/d/settings", object{"status": "INACTIVE"}, "update_settings", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
				for n := 0; ; n++ {
					var faults *registrytest.Faults
					env := localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
						faults = registrytest.Wrap(inner)
						return faults
					}}, deployments.Spec)
					prepare(t, env)
					deploy(t, env, "d", "1").Require(t, 200)
					before := actions(t, env, c.action)
					faults.Break(n, fault)
					first := env.Do(t, env.A.Key, c.method, c.path, c.body)
					if !faults.Heal() {
						first.Require(t, 200)
						require.Positive(t, n)
						break
					}
					env.Do(t, env.A.Key, c.method, c.path, c.body).Require(t, 200)
					assert.Equal(t, before+1, actions(t, env, c.action))
					if c.version > 0 {
						assert.Equal(t, c.version, number(t, env.Do(t, env.A.Key, "GET", "/deployments/d", nil), "deployment_version"))
					}
				}
			}
		})
	}
}

func actions(t *testing.T, env *localtest.Env, action string) (n int) {
	t.Helper()
	for _, r := range env.Audit(t, env.A.OrgID) {
		if r.Action == action && r.ResourceType == "deployment" {
			n++
		}
	}
	return n
}

// TestDeploymentStoredByEarlierVersion changes, rolls back and deletes a
// deployment whose items have no revision, and checks the audit entries.
func TestDeploymentStoredByEarlierVersion(t *testing.T) {
	t.Parallel()
	env := open(t)
	deploy(t, env, "d", "1").Require(t, 200)
	for _, key := range []table.Key{
		{PK: env.A.OrgID + "#deployments", SK: "d"}, {PK: env.A.OrgID + "#deployment#d", SK: "0000000001"},
	} {
		item, err := env.Deps.Table.Get(t.Context(), key, table.Consistent)
		require.NoError(t, err)
		require.Contains(t, item, "revision")
		delete(item, "revision")
		require.NoError(t, env.Deps.Table.Put(t.Context(), table.Put{Item: item}))
	}
	before := env.Do(t, env.A.Key, "GET", "/deployments/d", nil).Require(t, 200)
	env.Clock.Advance(time.Second)
	after := env.Do(t, env.A.Key, "PATCH", "/deployments/d", object{"flow_version": "2"}).Require(t, 200)
	assert.Equal(t, 2, number(t, after, "deployment_version"))
	assert.Equal(t, before.String(t, "created_at"), after.String(t, "created_at"))
	entries := env.Audit(t, env.A.OrgID)
	last := entries[len(entries)-1]
	assert.Equal(t, []string{"change_version", "deployment", "d"}, []string{last.Action, last.ResourceType, last.ResourceID})
	assert.JSONEq(t, string(before.Body), last.Before, "the entry shows what the answers show")
	assert.JSONEq(t, string(after.Body), last.After)
	back := env.Do(t, env.A.Key, "POST", "/deployments/d/rollback", nil).Require(t, 200)
	assert.Equal(t, "1", back.String(t, "flow_version"))
	assert.Equal(t, 3, number(t, back, "deployment_version"))
	env.Do(t, env.A.Key, "DELETE", "/deployments/d", nil).Require(t, 200)
	env.Do(t, env.A.Key, "GET", "/deployments/d", nil).Require(t, 404)
}
