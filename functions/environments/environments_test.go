package environments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/deployments"
	"millrace/functions/environments"
	"millrace/functions/runs"
	"millrace/functions/schedules"
	"millrace/functions/secrets"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

type object = map[string]any

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, environments.Spec)
	env.CheckAccess(t, "environments-create", "/environments", object{"name": "prod"})
	env.CheckAccess(t, "environments-list", "/environments", nil)
	env.CheckAccess(t, "environments-promote", "/environments/promote", object{"source": "default", "target": "prod"})
	env.CheckAccess(t, "environments-reorder", "/environments/reorder", object{"order": []string{"default"}})
	env.CheckAccess(t, "environments-get", "/environments/prod", nil)
	env.CheckAccess(t, "environments-update", "/environments/prod", object{"color": "red"})
	env.CheckAccess(t, "environments-delete", "/environments/prod", nil)
	env.CheckAccess(t, "environments-diff", "/environments/prod/diff/default", nil)
	env.CheckAccess(t, "environments-variables", "/environments/prod/variables", nil)
	env.CheckAccess(t, "environments-put-variables", "/environments/prod/variables", object{"variables": object{"A": "1"}})
	env.CheckAccess(t, "environments-patch-variables", "/environments/prod/variables", object{"variables": object{"A": "1"}})
	env.CheckAccess(t, "environments-delete-variable", "/environments/prod/variables/A", nil)
	env.CheckAccess(t, "environments-toggle-variable", "/environments/prod/variables/A/toggle", object{"enabled": true})
}

// world is a workspace with a flow of two versions.
type world struct {
	*localtest.Env
	store registry.Store
}

func open(t *testing.T, o localtest.Options) *world {
	t.Helper()
	w := &world{Env: localtest.Open(t, o, environments.Spec, deployments.Spec, secrets.Spec, runs.Spec, schedules.Spec)}
	w.store = registrytest.Store(w.Deps.Table, w.Deps.Blob, w.Clock)
	w.register(t, "etl", "1")
	w.register(t, "etl", "2")
	return w
}

func (w *world) register(t *testing.T, flow, version string) {
	t.Helper()
	registrytest.Register(t, w.store, w.A.OrgID, flow, version,
		`{"tasks":[{"name":"t","type":"transform","description":"`+version+`","config":{"expression":"1"}}]}`, "")
}

func (w *world) do(t *testing.T, method, path string, body any) *localtest.Response {
	t.Helper()
	return w.Do(t, w.A.Key, method, path, body)
}

func (w *world) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		w.Clock.Advance(time.Second) // environments are in order of their age
		w.do(t, "POST", "/environments", object{"name": name}).Require(t, 201)
	}
}

func (w *world) deploy(t *testing.T, name, flow, version, environment string) *localtest.Response {
	t.Helper()
	return w.do(t, "POST", "/deployments", object{"deployment_name": name, "flow_name": flow, "flow_version": version, "environment": environment}).Require(t, 200)
}

func (w *world) names(t *testing.T) (out []string) {
	t.Helper()
	for i, item := range w.do(t, "GET", "/environments", nil).Require(t, 200).Items(t) {
		out = append(out, item.(object)["name"].(string))
		assert.Equal(t, json.Number(fmt.Sprint(i+1)), item.(object)["position"])
	}
	return out
}

// actions are the actions and resources of the audit entries since n of them.
func (w *world) actions(t *testing.T, n int) (out []string) {
	t.Helper()
	for _, r := range w.Audit(t, w.A.OrgID)[n:] {
		out = append(out, r.Action+" "+r.ResourceType+" "+r.ResourceID)
	}
	return out
}

func TestEnvironmentLifecycle(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	assert.Equal(t, []string{"default"}, w.names(t), "it is there from the start")
	w.do(t, "GET", "/environments/default", nil).Require(t, 200)
	w.do(t, "POST", "/environments", object{"name": "default"}).Require(t, 409)
	w.do(t, "DELETE", "/environments/default", nil).Require(t, 409)
	w.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
	n := w.AuditCount(t, w.A.OrgID)

	made := w.do(t, "POST", "/environments", object{"name": "prod", "description": "d", "color": "#fff", "protected": true}).Require(t, 201)
	now := made.String(t, "created_at")
	actor := made.String(t, "created_by")
	assert.Equal(t, object{
		"name": "prod", "description": "d", "color": "#fff", "protected": true, "position": json.Number("2"), "variable_count": json.Number("0"),
		"created_at": now, "created_by": actor, "updated_at": now, "updated_by": actor,
	}, made.Object(t))
	w.do(t, "POST", "/environments", object{"name": "prod"}).Require(t, 409)
	w.Clock.Advance(time.Minute)
	changed := w.do(t, "PATCH", "/environments/prod", object{"protected": false}).Require(t, 200)
	assert.Equal(t, []any{"d", false}, []any{changed.Get(t, "description"), changed.Get(t, "protected")})
	w.do(t, "PATCH", "/environments/none", object{"color": "x"}).Require(t, 404)
	w.Clock.Advance(time.Minute)
	w.do(t, "PATCH", "/environments/default", object{"color": "x"}).Require(t, 200)
	w.Clock.Advance(time.Minute)
	assert.Equal(t, object{"status": "deleted", "name": "prod"}, w.do(t, "DELETE", "/environments/prod", nil).Require(t, 200).Object(t))
	for _, method := range []string{"GET", "DELETE"} {
		w.do(t, method, "/environments/prod", nil).Require(t, 404)
	}
	assert.Equal(t, []string{"create environment prod", "update environment prod", "update environment default", "delete environment prod"}, w.actions(t, n))
	assert.Equal(t, []any{}, env404(t, w))
}

// env404 asks for what is below an environment that is not there, and returns what
// did not answer 404.
func env404(t *testing.T, w *world) []any {
	t.Helper()
	out := []any{}
	for _, r := range [][2]string{{"GET", ""}, {"GET", "/variables"}, {"GET", "/diff/default"}, {"DELETE", "/variables/A"}, {"POST", "/variables/A/toggle"}} {
		if res := w.do(t, r[0], "/environments/prod"+r[1], nil); res.Code != 404 {
			out = append(out, r, res.Code)
		}
	}
	return out
}

func TestOrder(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "dev", "prod", "a")
	assert.Equal(t, []string{"default", "dev", "prod", "a"}, w.names(t))
	w.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
	n := w.AuditCount(t, w.A.OrgID)
	res := w.do(t, "PUT", "/environments/reorder", object{"order": []string{"prod", "a", "default", "dev"}}).Require(t, 200)
	assert.Equal(t, "prod", res.String(t, "items", 0, "name"))
	assert.Equal(t, []string{"prod", "a", "default", "dev"}, w.names(t))
	assert.Equal(t, []string{"reorder environment order"}, w.actions(t, n))
	w.create(t, "new")
	w.do(t, "DELETE", "/environments/a", nil).Require(t, 200)
	assert.Equal(t, []string{"prod", "default", "dev", "new"}, w.names(t), "a new one comes last, a deleted one leaves no gap")
	for name, order := range map[string][]string{
		"one missing": {"prod", "default", "dev"}, "one twice": {"prod", "default", "dev", "new", "new"}, "unknown": {"prod", "default", "dev", "new", "x"}, "none": {},
	} {
		w.do(t, "PUT", "/environments/reorder", object{"order": order}).Require(t, 422)
		assert.Equal(t, []string{"prod", "default", "dev", "new"}, w.names(t), name)
	}
	assert.Len(t, w.do(t, "GET", "/environments?limit=2", nil).Require(t, 200).Items(t), 2)
}

func TestDeploymentsMakeTheirEnvironment(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Clock.Advance(time.Minute)
	n := w.AuditCount(t, w.A.OrgID)
	assert.Equal(t, true, w.deploy(t, "d", "etl", "1", "prod").Get(t, "environment_created"))
	assert.ElementsMatch(t, []string{"create environment prod", "create deployment d"}, w.actions(t, n))
	again := w.deploy(t, "e", "etl", "1", "prod")
	assert.NotContains(t, again.Object(t), "environment_created")
	assert.Contains(t, w.names(t), "prod")

	refused := w.do(t, "DELETE", "/environments/prod", nil).Require(t, 409)
	assert.Contains(t, refused.String(t, "detail"), "deployment 'd', deployment 'e'")
	w.do(t, "PUT", "/deployments/d/settings", object{"environment": "dev"}).Require(t, 200)
	w.do(t, "DELETE", "/deployments/e", nil).Require(t, 200)
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 200)
	w.do(t, "DELETE", "/environments/dev", nil).Require(t, 409)
	w.do(t, "PUT", "/deployments/d/settings", object{"status": "INACTIVE"}).Require(t, 200)
	w.do(t, "DELETE", "/environments/dev", nil).Require(t, 409)
	w.do(t, "POST", "/deployments/d/rollback", object{"deployment_version": 1}).Require(t, 200)
	assert.Contains(t, w.names(t), "prod", "going back to a deployment_version makes its environment, too")
	w.do(t, "DELETE", "/environments/dev", nil).Require(t, 200)
}

// TestADeploymentIsNeverOverlooked: of a deletion and a deployment at the same time,
// the environment of the deployment is there afterwards.
func TestADeploymentIsNeverOverlooked(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	as := registrytest.As(w.A.OrgID)
	for i := range 20 {
		name := fmt.Sprint("env", i)
		w.create(t, name)
		var wg sync.WaitGroup
		wg.Go(func() { registrytest.Deploy(t, w.store, w.A.OrgID, "d", "etl", "1", name) })
		wg.Go(func() { _, _ = w.store.DeleteEnvironment(as, name) })
		wg.Wait()
		w.do(t, "GET", "/environments/"+name, nil).Require(t, 200)
		refused := w.do(t, "DELETE", "/environments/"+name, nil).Require(t, 409)
		assert.Contains(t, refused.String(t, "detail"), "deployment 'd'")
	}
}

func TestRunsInUnknownEnvironmentsAreRefused(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	body := object{"flow_name": "etl", "flow_version": "1", "environment": "prod"}
	refused := w.do(t, "POST", "/runs", body).Require(t, 422)
	assert.Equal(t, []any{"body", "environment"}, refused.Get(t, "detail", 0, "loc"))
	w.create(t, "prod")
	run := w.do(t, "POST", "/runs", body).Require(t, 200)
	refused = w.do(t, "DELETE", "/environments/prod", nil).Require(t, 409)
	assert.Contains(t, refused.String(t, "detail"), "run '"+run.String(t, "run_slug")+"'")
	w.do(t, "POST", "/runs/"+run.String(t, "run_id")+"/cancel", nil).Require(t, 200)
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 200)
	w.do(t, "POST", "/runs/"+run.String(t, "run_id")+"/retry", nil).Require(t, 422)
}

func TestSecretsGoWithTheirEnvironment(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	body := object{"name": "TOKEN", "value": "x", "environment": "prod"}
	w.do(t, "POST", "/secrets", body).Require(t, 422)
	w.do(t, "POST", "/secrets", object{"name": "TOKEN", "value": "own"}).Require(t, 201)
	w.create(t, "prod", "dev")
	w.do(t, "POST", "/secrets", body).Require(t, 201)
	w.do(t, "POST", "/secrets/copy", object{"name": "TOKEN", "source_environment": "prod", "target_environment": "none"}).Require(t, 422)
	w.do(t, "POST", "/secrets/copy", object{"name": "TOKEN", "source_environment": "none", "target_environment": "dev"}).Require(t, 422)
	w.do(t, "POST", "/secrets/copy", object{"name": "TOKEN", "source_environment": "prod", "target_environment": "dev"}).Require(t, 201)
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 200)
	for method, path := range map[string]string{"GET": "/secrets/TOKEN", "DELETE": "/secrets/TOKEN"} {
		w.do(t, method, path+"?environment=prod", nil).Require(t, 422)
	}
	w.create(t, "prod")
	w.do(t, "GET", "/secrets/TOKEN?environment=prod", nil).Require(t, 404)
	assert.Len(t, w.do(t, "GET", "/secrets", nil).Items(t), 2)
}

// TestWorkspacesOfBefore: deployments and secrets that were stored before there were
// environments have theirs, which are in use.
func TestWorkspacesOfBefore(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "prod", "test")
	for i := range 60 {
		w.deploy(t, fmt.Sprint("d", i), "etl", "1", "prod")
	}
	w.do(t, "POST", "/secrets", object{"name": "TOKEN", "value": "x", "environment": "test"}).Require(t, 201)
	forget(t, w)
	run := w.do(t, "POST", "/runs", object{"deployment": "d7"}).Require(t, 200)
	assert.Equal(t, "prod", run.String(t, "environment"))
	assert.ElementsMatch(t, []string{"default", "prod", "test"}, w.names(t))
	w.do(t, "GET", "/secrets/TOKEN?environment=test", nil).Require(t, 200)
	refused := w.do(t, "DELETE", "/environments/prod", nil).Require(t, 409)
	assert.Contains(t, refused.String(t, "detail"), "deployment 'd0'")
	w.do(t, "DELETE", "/environments/test", nil).Require(t, 200)
	assert.ElementsMatch(t, []string{"default", "prod"}, w.names(t), "it is not made again")

	forget(t, w)
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 409)
	forget(t, w)
	w.do(t, "POST", "/secrets", object{"name": "TOKEN", "value": "x", "environment": "prod"}).Require(t, 201)
}

// forget removes all that is stored of environments.
func forget(t *testing.T, w *world) {
	t.Helper()
	org := w.A.OrgID
	for _, pk := range []string{org + "#environments", org + "#env#prod", org + "#env#test", org + "#env#default", org + "#environment-order"} {
		for item, err := range table.All(t.Context(), w.Deps.Table, table.Query{PK: pk}) {
			require.NoError(t, err)
			require.NoError(t, w.Deps.Table.Delete(t.Context(), table.Delete{Key: item.Key()}))
		}
	}
}

func TestWorkspacesAreApart(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "prod")
	w.do(t, "PUT", "/environments/prod/variables", object{"variables": object{"A": "1"}}).Require(t, 200)
	for _, path := range []string{"", "/variables", "/diff/default"} {
		w.Do(t, w.B.Key, "GET", "/environments/prod"+path, nil).Require(t, 404)
	}
	w.Do(t, w.B.Key, "DELETE", "/environments/prod", nil).Require(t, 404)
	w.Do(t, w.B.Key, "POST", "/environments", object{"name": "prod"}).Require(t, 201)
	w.Do(t, w.B.Key, "DELETE", "/environments/prod", nil).Require(t, 200)
	assert.Len(t, w.do(t, "GET", "/environments/prod/variables", nil).Items(t), 1)
}

// TestDeletingSurvivesACrashAtEveryWrite: cut short anywhere, nothing of the
// environment is seen or comes back once its deletion was, and all of it is there
// before.
func TestDeletingSurvivesACrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
		for n, met := 0, true; met; n++ {
			var faults *registrytest.Faults
			w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
				faults = registrytest.Wrap(inner)
				return faults
			}})
			w.create(t, "prod")
			w.do(t, "PUT", "/environments/prod/variables", object{"variables": object{"A": "1"}}).Require(t, 200)
			for i := range 3 {
				w.do(t, "POST", "/secrets", object{"name": fmt.Sprint("S", i), "value": "x", "environment": "prod"}).Require(t, 201)
			}
			faults.Break(n, fault)
			res := w.do(t, "DELETE", "/environments/prod", nil)
			if met = faults.Heal(); !met {
				res.Require(t, 200)
			}
			secretsSeen := len(w.do(t, "GET", "/secrets", nil).Require(t, 200).Items(t))
			if w.do(t, "GET", "/environments/prod", nil).Code == 200 {
				assert.Equal(t, 3, secretsSeen)
				assert.Len(t, w.do(t, "GET", "/environments/prod/variables", nil).Items(t), 1)
				continue
			}
			assert.Zero(t, secretsSeen)
			w.do(t, "GET", "/secrets/S1", nil).Require(t, 404)
			w.do(t, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "environment": "prod"}).Require(t, 422)
			if n%2 == 0 {
				w.create(t, "prod")
			} else {
				w.deploy(t, "d", "etl", "1", "prod")
			}
			w.do(t, "GET", "/secrets/S1?environment=prod", nil).Require(t, 404)
			assert.Empty(t, w.do(t, "GET", "/environments/prod/variables", nil).Require(t, 200).Items(t))
			w.do(t, "POST", "/secrets", object{"name": "S1", "value": "new", "environment": "prod"}).Require(t, 201)
			w.do(t, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "environment": "prod"}).Require(t, 200)
			assert.Len(t, w.do(t, "GET", "/secrets", nil).Items(t), 1)
		}
	}
}

// TestASecretIsNeverLeftBehind: of a deletion and a secret at the same time, the
// secret is either refused or gone with the environment.
func TestASecretIsNeverLeftBehind(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	for i := range 20 {
		name := fmt.Sprint("env", i)
		w.create(t, name)
		var wg sync.WaitGroup
		wg.Go(func() {
			w.do(t, "POST", "/secrets", object{"name": "S", "value": "x", "environment": name})
		})
		wg.Go(func() {
			_, err := w.store.DeleteEnvironment(registrytest.As(w.A.OrgID), name)
			assert.NoError(t, err)
		})
		wg.Wait()
		assert.Empty(t, w.do(t, "GET", "/secrets", nil).Items(t))
	}
}

func TestInvalidBodiesAreRejected(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	for _, body := range []string{``, `{}`, `{"name":""}`, `{"name":"a#b"}`, `{"name":7}`, `{"name":"a","position":1}`, `{"name":"a","protected":"yes"}`} {
		w.do(t, "POST", "/environments", body).Require(t, 422)
	}
	w.do(t, "PATCH", "/environments/default", `{"name":"x"}`).Require(t, 422)
	assert.Equal(t, []string{"default"}, w.names(t))
}

func TestEnvironmentsAreLimited(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"environments=3"}})
	w.create(t, "a", "b")
	w.do(t, "POST", "/environments", object{"name": "c"}).Require(t, 429)
	w.do(t, "POST", "/deployments", object{"deployment_name": "d", "flow_name": "etl", "flow_version": "1", "environment": "c"}).Require(t, 429)
	_, err := registry.GetDeployment(context.Background(), w.Deps.Table, w.A.OrgID, "d")
	require.Error(t, err)
}
