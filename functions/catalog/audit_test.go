package catalog_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/blob"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/web/httpapi"
)

// mutation is a request of an operation that changes something, and the entry
// that it leaves in the audit log.
type mutation struct {
	resourceType, action string
	actor                string // email; empty: the owner of workspace A; nobody: none
	// do makes the change. It calls now right before the last request, which is
	// that of the operation.
	do func(t *testing.T, env *localtest.Env, now func()) *localtest.Response
}

// as is a mutation of one request after others that prepare it.
func as(resourceType, action, method, path string, body any, before ...func(t *testing.T, env *localtest.Env)) mutation {
	return mutation{resourceType, action, "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		t.Helper()
		for _, prepare := range before {
			prepare(t, env)
		}
		now()
		return env.Do(t, env.A.Key, method, path, body)
	}}
}

// request prepares a mutation.
func request(method, path string, body any) func(t *testing.T, env *localtest.Env) {
	return func(t *testing.T, env *localtest.Env) {
		t.Helper()
		res := env.Do(t, env.A.Key, method, path, body)
		require.Equal(t, 2, res.Code/100, "%s %s: %s", method, path, res.Body)
	}
}

var (
	registers = request("POST", "/flows", object{"flow_name": "etl", "flow_version": "1", "flow_spec": spec})
	deploys   = request("POST", "/deployments", object{"deployment_name": "prod", "flow_name": "etl", "flow_version": "1"})
	drafts    = request("POST", "/flows/etl/draft", nil)
	hides     = request("POST", "/secrets", object{"name": "S", "value": "v"})
	separates = request("POST", "/environments", object{"name": "e"})
	sets      = request("PUT", "/environments/e/variables", object{"variables": object{"A": "1"}})
)

// ofRun is a mutation of a run, which may have been cancelled.
func ofRun(action, verb string, cancelled bool) mutation {
	return mutation{"run", action, "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		t.Helper()
		registers(t, env)
		id := run(env, t, env.A.Key).Require(t, 200).String(t, "run_id")
		if cancelled {
			env.Do(t, env.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200)
		}
		now()
		return env.Do(t, env.A.Key, "POST", "/runs/"+id+"/"+verb, nil)
	}}
}

func initiated(t *testing.T, env *localtest.Env) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": "1", "size_bytes": 3}).Require(t, 200)
}

// nobody is the actor of what a request without a credential does.
const nobody = "nobody"

// watches creates a sensor.
func watches(t *testing.T, env *localtest.Env, sensorType string) *localtest.Response {
	t.Helper()
	return env.Do(t, env.A.Key, "POST", "/sensors", object{"name": "s", "sensor_type": sensorType, "flow_name": "etl"}).Require(t, 201)
}

func inMembers(env *localtest.Env) string { return "/orgs/" + env.A.OrgID + "/members" }

var nightly = object{"schedule_id": "nightly", "flow_name": "etl", "flow_version": "1", "mode": "cron", "cron_expression": "@daily"}

// chat and onFailure are a channel and an alert rule.
var (
	chat      = object{"channel_type": "chat", "name": "c", "config_json": `{"webhook_url": "https://example.com/"}`}
	onFailure = object{"name": "r", "trigger": "on_failure"}
)

// ofMade is a mutation of something that was made by another request.
func ofMade(resourceType, action, method, collection, id, verb string, body any) mutation {
	return mutation{resourceType, action, "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		t.Helper()
		path := collection + "/" + env.Do(t, env.A.Key, "POST", collection, body).Require(t, 201).String(t, id) + verb
		now()
		return env.Do(t, env.A.Key, method, path, nil)
	}}
}

var march = object{"from": "2026-03-01", "to": "2026-03-31", "cron_expression": "@daily"}

// device starts the authorization of a device.
func device(t *testing.T, env *localtest.Env) *localtest.Response {
	t.Helper()
	return env.Do(t, "", "POST", "/auth/device/start", object{}).Require(t, 200)
}

func approve(t *testing.T, env *localtest.Env, begun *localtest.Response) *localtest.Response {
	t.Helper()
	return env.Do(t, env.SignIn(t, env.A.Owner), "POST", "/auth/device/approve", object{"user_code": begun.String(t, "user_code")})
}

// mutations has a row for each operation that changes something, by its id.
var mutations = map[string]mutation{
	"admin-delete": {"exception", "delete", localtest.SuperAdmin, func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		key := httpapi.TraceKey(env.Clock.Now(), env.A.OrgID, "req")
		_, err := blob.PutBytes(t.Context(), env.Deps.Blob, key, []byte("{}"), blob.PutOptions{})
		require.NoError(t, err)
		now()
		return env.Do(t, env.SignIn(t, localtest.SuperAdmin), "DELETE", "/admin/exceptions", object{"keys": []string{key}})
	}},
	"api-keys-create": as("api_key", "create", "POST", "/api-keys", object{"name": "k"}),
	"api-keys-delete": {"api_key", "delete", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		id := env.Do(t, env.A.Key, "POST", "/api-keys", object{"name": "k"}).Require(t, 200).String(t, "key_id")
		now()
		return env.Do(t, env.A.Key, "DELETE", "/api-keys/"+id, nil)
	}},
	"artifacts-initiate": as("artifact", "initiate", "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": "1", "size_bytes": 3}),
	"artifacts-abort": {"artifact", "abort", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		begun := initiated(t, env)
		now()
		return env.Do(t, env.A.Key, "POST", "/artifacts/abort", object{"upload_id": begun.String(t, "upload_id"), "artifact_key": begun.String(t, "artifact_key")})
	}},
	"artifacts-complete": {"deployment", "deploy", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		data := registrytest.Zip(t, map[string]string{"flow.py": "def main():\n    return 1\n", "flow_spec.json": registrytest.PythonSpec})
		begun := env.Do(t, env.A.Key, "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": "1", "size_bytes": len(data)}).Require(t, 200)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, begun.String(t, "parts", 0, "upload_url"), bytes.NewReader(data))
		require.NoError(t, err)
		sent, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, sent.Body.Close())
		now()
		return env.Do(t, env.A.Key, "POST", "/artifacts/complete", object{
			"upload_id": begun.String(t, "upload_id"), "artifact_key": begun.String(t, "artifact_key"),
			"parts":           []object{{"part_number": 1, "etag": sent.Header.Get("ETag")}},
			"deployment_name": "prod", "flow_name": "etl", "flow_version": "1",
		})
	}},
	"auth-login": {"session", "login", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		now()
		return env.Do(t, env.SignIn(t, env.A.Owner), "POST", "/auth/login", object{"email": env.A.Owner})
	}},
	"auth-logout": {"session", "logout", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		now()
		return env.Do(t, env.SignIn(t, env.A.Owner), "POST", "/auth/logout", nil)
	}},
	"auth-device-approve": {"session", "approve_device", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		begun := device(t, env)
		now()
		return approve(t, env, begun)
	}},
	"auth-device-token": {"session", "login", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		begun := device(t, env)
		approve(t, env, begun).Require(t, 200)
		now()
		return env.Do(t, "", "POST", "/auth/device/token", object{"device_code": begun.String(t, "device_code")})
	}},
	"backfills-create": as("backfill", "create", "POST", "/flows/etl/backfill", march, registers),
	"backfills-cancel": {"backfill", "cancel", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		registers(t, env)
		id := env.Do(t, env.A.Key, "POST", "/flows/etl/backfill", march).Require(t, 200).String(t, "backfill_id")
		now()
		return env.Do(t, env.A.Key, "POST", "/backfills/"+id+"/cancel", nil)
	}},
	"deployments-put": as("deployment", "create", "POST", "/deployments",
		object{"deployment_name": "prod", "flow_name": "etl", "flow_version": "1"}, registers),
	"deployments-delete": as("deployment", "delete", "DELETE", "/deployments/prod", nil, registers, deploys),
	"deployments-version": as("deployment", "change_version", "PATCH", "/deployments/prod", object{"flow_version": "2"}, registers, deploys,
		request("POST", "/flows", object{"flow_name": "etl", "flow_version": "2", "flow_spec": spec})),
	"deployments-settings": as("deployment", "update_settings", "PUT", "/deployments/prod/settings", object{"execution_mode": "small"}, registers, deploys),
	"deployments-rollback": as("deployment", "rollback", "POST", "/deployments/prod/rollback", object{}, registers, deploys,
		request("PUT", "/deployments/prod/settings", object{"execution_mode": "small"})),
	"environments-create":  as("environment", "create", "POST", "/environments", object{"name": "e"}),
	"environments-update":  as("environment", "update", "PATCH", "/environments/e", object{"color": "red"}, separates),
	"environments-delete":  as("environment", "delete", "DELETE", "/environments/e", nil, separates, sets),
	"environments-reorder": as("environment", "reorder", "PUT", "/environments/reorder", object{"order": []string{"e", "default"}}, separates),
	"environments-promote": as("environment", "promote", "POST", "/environments/promote", object{"source": "e", "target": "default"}, separates, sets),
	"environments-put-variables": as("environment", "update_variables", "PUT", "/environments/e/variables",
		object{"variables": object{"A": "1"}}, separates),
	"environments-patch-variables": as("environment", "update_variables", "PATCH", "/environments/e/variables",
		object{"variables": object{"A": nil}}, separates, sets),
	"environments-delete-variable":       as("environment", "delete_variable", "DELETE", "/environments/e/variables/A", nil, separates, sets),
	"environments-toggle-variable":       as("environment", "toggle_variable", "POST", "/environments/e/variables/A/toggle", object{}, separates, sets),
	"flows-register":                     as("flow", "register", "POST", "/flows", object{"flow_name": "etl", "flow_version": "1", "flow_spec": spec}),
	"flows-delete":                       as("flow", "delete", "DELETE", "/flows/etl", nil, registers),
	"flows-draft-create":                 as("flow_draft", "create", "POST", "/flows/etl/draft", nil, registers),
	"flows-draft-write":                  as("flow_draft", "update", "PUT", "/flows/etl/draft/source", object{"flow_spec": object{"tasks": []object{}}}, registers, drafts),
	"notifications-create-channel":       as("channel", "create", "POST", "/channels", chat),
	"notifications-create-channel-alias": as("channel", "create", "POST", "/notifications/channels", chat),
	"notifications-delete-channel":       ofMade("channel", "delete", "DELETE", "/channels", "channel_id", "", chat),
	"notifications-create-rule":          as("alert_rule", "create", "POST", "/alert-rules", onFailure),
	"notifications-create-rule-alias":    as("alert_rule", "create", "POST", "/notifications/rules", onFailure),
	"notifications-delete-rule":          ofMade("alert_rule", "delete", "DELETE", "/alert-rules", "rule_id", "", onFailure),
	"notifications-test-rule":            ofMade("alert_rule", "test", "POST", "/alert-rules", "rule_id", "/test", onFailure),
	"orgs-create":                        as("org", "create", "POST", "/orgs", object{"name": "Another"}),
	"orgs-add-member": {"member", "create", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		now()
		return env.Do(t, env.A.Key, "POST", inMembers(env), object{"email": "m@a.test", "role": "viewer"})
	}},
	"orgs-change-role": {"member", "update_role", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		env.Do(t, env.A.Key, "POST", inMembers(env), object{"email": "m@a.test", "role": "viewer"}).Require(t, 200)
		now()
		return env.Do(t, env.A.Key, "PATCH", inMembers(env)+"/m@a.test/role", object{"role": "developer"})
	}},
	"runs-create":            as("run", "create", "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"}, registers),
	"runs-cancel":            ofRun("cancel", "cancel", false),
	"runs-retry":             ofRun("retry", "retry", true),
	"runs-retry-from-failed": ofRun("retry", "retry-from-failed", true),
	"schedules-put":          as("schedule", "create", "POST", "/schedules", nightly, registers),
	"schedules-patch":        as("schedule", "update", "PATCH", "/schedules/nightly", object{"enabled": false}, registers, request("POST", "/schedules", nightly)),
	"schedules-trigger":      as("run", "create", "POST", "/schedules/nightly/trigger", nil, registers, request("POST", "/schedules", nightly)),
	"sensors-create":         as("sensor", "create", "POST", "/sensors", object{"name": "s", "sensor_type": "webhook", "flow_name": "etl"}, registers),
	"sensors-delete": {"sensor", "delete", "", func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		id := watches(t, env, "webhook").String(t, "sensor_id")
		now()
		return env.Do(t, env.A.Key, "DELETE", "/sensors/"+id, nil)
	}},
	"webhooks-receive": {"run", "create", nobody, func(t *testing.T, env *localtest.Env, now func()) *localtest.Response {
		registers(t, env)
		token := watches(t, env, "webhook").String(t, "webhook_token")
		now()
		return env.Do(t, "", "POST", "/webhooks/"+token, nil)
	}},
	"secrets-create": as("secret", "create", "POST", "/secrets", object{"name": "S", "value": "v"}),
	"secrets-copy":   as("secret", "copy", "POST", "/secrets/copy", object{"name": "S", "source_environment": nil, "target_environment": "e"}, hides, separates),
	"secrets-delete": as("secret", "delete", "DELETE", "/secrets/S", nil, hides),
	"secrets-patch":  as("secret", "update_metadata", "PATCH", "/secrets/S", object{"description": "d"}, hides),
	"secrets-update": as("secret", "update", "PUT", "/secrets/S", object{"value": "w"}, hides),
}

// unaudited are operations that change something, but nothing of a user's.
var unaudited = map[string]string{
	"attempt-start":     "a task begins, which its run's own entry covers",
	"attempt-logs":      "a task delivers its own log",
	"attempt-complete":  "a task ends, which its run's own entry covers",
	"auth-device-start": "nobody is known yet",
	"sensors-test":      "tells what would be done",
}

// TestEveryMutationLeavesOneEntry makes each change of the catalog through the
// router. A new operation needs a row.
func TestEveryMutationLeavesOneEntry(t *testing.T) {
	t.Parallel()
	ops := map[string]bool{}
	for _, op := range catalog.Operations(catalog.All()) {
		if op.Method == http.MethodGet {
			continue
		}
		ops[op.ID] = true
		if unaudited[op.ID] != "" {
			continue
		}
		row, found := mutations[op.ID]
		if !assert.True(t, found, "%s changes something: add the entry that it leaves to mutations", op.ID) {
			continue
		}
		t.Run(op.ID, func(t *testing.T) {
			t.Parallel()
			env := open(t)
			before := map[string]bool{}
			res := row.do(t, env, func() {
				for _, r := range everywhere(t, env) {
					before[r.ID()] = true
				}
			})
			require.Equal(t, 2, res.Code/100, "%s", res.Body)
			var left []audit.Record
			for _, r := range everywhere(t, env) {
				if !before[r.ID()] {
					left = append(left, r)
				}
			}
			require.Len(t, left, 1, "%+v", left)
			e := left[0]
			assert.Equal(t, row.resourceType+" "+row.action, e.ResourceType+" "+e.Action)
			assert.NotEmpty(t, e.ResourceID)
			assert.Equal(t, strings.TrimPrefix(cmp.Or(row.actor, env.A.Owner), nobody), e.ActorEmail)
			assert.NotEmpty(t, e.IP)
			assert.Equal(t, res.Header.Get("X-Request-Id"), e.RequestID)
			assert.True(t, e.Before+e.After+e.Metadata != "", "it tells nothing of the change")
			for _, snapshot := range []string{e.Before, e.After, e.Metadata} {
				assert.True(t, snapshot == "" || json.Valid([]byte(snapshot)))
			}
		})
	}
	for id := range mutations {
		assert.True(t, ops[id], "%s is no operation", id)
	}
	for id := range unaudited {
		assert.True(t, ops[id], "%s is no operation", id)
	}
}

// everywhere returns the entries of all workspaces of the owner of workspace A.
func everywhere(t *testing.T, env *localtest.Env) (out []audit.Record) {
	t.Helper()
	orgs := env.Do(t, env.SignIn(t, env.A.Owner), "GET", "/orgs", nil).Require(t, 200)
	for i := range orgs.Items(t) {
		out = append(out, env.Audit(t, orgs.String(t, "items", i, "org_id"))...)
	}
	return out
}
