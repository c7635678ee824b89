package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/web/httpapi"
)

// TestExamplesAreAccepted sends the examples of the description, in the order
// in which a user would.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	env := open(t)
	document := catalog.API(catalog.All(), httpapi.Config{}).OpenAPI()
	answer := func(credential, method, path, at string) *localtest.Response {
		t.Helper()
		item := document.Paths[path]
		require.NotNil(t, item, path)
		op := map[string]any{"POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete}[method]
		var described struct {
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
		data, err := json.Marshal(op)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &described))
		example := described.RequestBody.Content["application/json"].Example
		require.NotEmpty(t, example, "%s %s has no example", method, path)
		return env.Do(t, credential, method, at, example)
	}
	send := func(credential, method, path, at string) {
		t.Helper()
		res := answer(credential, method, path, at)
		require.Equal(t, 2, res.Code/100, "%s %s: %s", method, path, res.Body)
	}
	send(env.A.Key, "POST", "/flows", "/flows")
	send(env.A.Key, "POST", "/deployments", "/deployments")
	send(env.A.Key, "PUT", "/deployments/{deployment_name}/settings", "/deployments/daily-sales/settings")
	send(env.A.Key, "PATCH", "/deployments/{deployment_name}", "/deployments/daily-sales")
	send(env.A.Key, "POST", "/runs", "/runs")
	env.Do(t, env.A.Key, "POST", "/schedules", map[string]any{ // says which version a backfill is of
		"deployment": "daily-sales", "mode": "interval", "interval_seconds": 86400, "parameters": map[string]any{"day": "2026-03-04"},
	}).Require(t, 200)
	send(env.A.Key, "POST", "/flows/{flow_name}/backfill", "/flows/daily-sales/backfill")
	send(env.A.Key, "POST", "/artifacts/initiate", "/artifacts/initiate")
	env.Do(t, env.A.Key, "POST", "/flows/daily-sales/draft", nil).Require(t, 200)
	send(env.A.Key, "PUT", "/flows/{flow_name}/draft/source", "/flows/daily-sales/draft/source")
	send(env.A.Key, "POST", "/environments", "/environments")
	send(env.A.Key, "PATCH", "/environments/{env_name}", "/environments/staging")
	send(env.A.Key, "PUT", "/environments/reorder", "/environments/reorder")
	send(env.A.Key, "PUT", "/environments/{env_name}/variables", "/environments/staging/variables")
	send(env.A.Key, "PATCH", "/environments/{env_name}/variables", "/environments/staging/variables")
	send(env.A.Key, "POST", "/environments/{env_name}/variables/{var_key}/toggle", "/environments/staging/variables/REGION/toggle")
	send(env.A.Key, "POST", "/environments/promote", "/environments/promote")
	send(env.A.Key, "POST", "/secrets", "/secrets")
	send(env.A.Key, "PUT", "/secrets/{secret_name}", "/secrets/WAREHOUSE_PASSWORD")
	send(env.A.Key, "PATCH", "/secrets/{secret_name}", "/secrets/WAREHOUSE_PASSWORD")
	send(env.A.Key, "POST", "/sensors", "/sensors")
	for _, path := range []string{"/channels", "/notifications/channels", "/alert-rules", "/notifications/rules"} {
		send(env.A.Key, "POST", path, path)
	}
	send(env.SignIn(t, localtest.SuperAdmin), "DELETE", "/admin/exceptions", "/admin/exceptions")
	owner := env.SignIn(t, env.A.Owner)
	send(owner, "POST", "/api-keys", "/api-keys")
	send(owner, "POST", "/orgs", "/orgs")
	send(env.SignIn(t, "ann@example.com"), "POST", "/auth/login", "/auth/login")
	send("", "POST", "/auth/device/start", "/auth/device/start")
	// Codes are made by chance, so those of the examples are well-formed and unknown.
	answer(owner, "POST", "/auth/device/approve", "/auth/device/approve").Require(t, 404)
	answer("", "POST", "/auth/device/token", "/auth/device/token").Require(t, 410)
	send(owner, "POST", "/orgs/{org_id}/members", "/orgs/"+env.A.OrgID+"/members")
	send(owner, "PATCH", "/orgs/{org_id}/members/{email}/role", "/orgs/"+env.A.OrgID+"/members/new.colleague@example.com/role")
}
