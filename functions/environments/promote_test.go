package environments_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry/registrytest"
)

// furnished has two environments with deployments and variables.
func furnished(t *testing.T, o localtest.Options) *world {
	t.Helper()
	w := open(t, o)
	w.register(t, "load", "7")
	w.register(t, "old", "1")
	w.create(t, "staging", "production")
	w.deploy(t, "etl-staging", "etl", "2", "staging")
	w.deploy(t, "etl-production", "etl", "1", "production")
	w.deploy(t, "load-staging", "load", "7", "staging")
	w.deploy(t, "old", "old", "1", "production")
	w.do(t, "PUT", "/environments/staging/variables", object{"variables": object{"SAME": "1", "OTHER": "s", "NEW": "n", "OFF": "x"}}).Require(t, 200)
	w.do(t, "POST", "/environments/staging/variables/OFF/toggle", nil).Require(t, 200)
	w.do(t, "PUT", "/environments/production/variables", object{"variables": object{"SAME": "1", "OTHER": "p", "ONLY": "p", "OFF": "x"}}).Require(t, 200)
	return w
}

func TestDiff(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	for name, at := range map[string]any{"BOTH": "staging", "FIRST": "staging", "OWN": nil} {
		w.do(t, "POST", "/secrets", object{"name": name, "value": "canary-" + name, "environment": at}).Require(t, 201)
	}
	for _, name := range []string{"BOTH", "SECOND"} {
		w.do(t, "POST", "/secrets", object{"name": name, "value": "other", "environment": "production"}).Require(t, 201)
	}
	diff := w.do(t, "GET", "/environments/staging/diff/production", nil).Require(t, 200)
	assert.JSONEq(t, `{
		"variables": {
			"added": [{"key": "ONLY", "from": null, "to": {"value": "p", "enabled": true}}],
			"removed": [{"key": "NEW", "from": {"value": "n", "enabled": true}, "to": null}],
			"changed": [
				{"key": "OFF", "from": {"value": "x", "enabled": false}, "to": {"value": "x", "enabled": true}},
				{"key": "OTHER", "from": {"value": "s", "enabled": true}, "to": {"value": "p", "enabled": true}}
			]
		},
		"secrets": {"added": ["SECOND"], "removed": ["FIRST"], "changed": []},
		"deployments": {
			"added": [{"flow_name": "old", "from": [], "to": [{"deployment_name": "old", "flow_version": "1"}]}],
			"removed": [{"flow_name": "load", "from": [{"deployment_name": "load-staging", "flow_version": "7"}], "to": []}],
			"changed": [{"flow_name": "etl", "from": [{"deployment_name": "etl-staging", "flow_version": "2"}],
				"to": [{"deployment_name": "etl-production", "flow_version": "1"}]}]
		}
	}`, string(diff.Body))
	empty := w.do(t, "GET", "/environments/staging/diff/staging", nil).Require(t, 200)
	none := `{"added": [], "removed": [], "changed": []}`
	assert.JSONEq(t, `{"variables": `+none+`, "secrets": `+none+`, "deployments": `+none+`}`, string(empty.Body))
	w.do(t, "GET", "/environments/staging/diff/none", nil).Require(t, 404)
}

// promoted is all that the promotion of everything from staging to production does.
const promoted = `"source": "staging", "target": "production",
	"deployments": [
		{"deployment_name": "etl-production", "source_deployment": "etl-staging", "flow_name": "etl", "from_version": "1", "to_version": "2", "action": "changed", "schedule": null},
		{"deployment_name": "load-production", "source_deployment": "load-staging", "flow_name": "load", "from_version": null, "to_version": "7", "action": "added", "schedule": null}
	],
	"variables": [
		{"key": "NEW", "from": null, "to": {"value": "n", "enabled": true}, "action": "added"},
		{"key": "OFF", "from": {"value": "x", "enabled": true}, "to": {"value": "x", "enabled": false}, "action": "changed"},
		{"key": "OTHER", "from": {"value": "p", "enabled": true}, "to": {"value": "s", "enabled": true}, "action": "changed"}
	]`

const nothing = `{"source": "staging", "target": "production", "dry_run": false, "deployments": [], "variables": []}`

func TestPromote(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	body := object{"source": "staging", "target": "production", "dry_run": true}
	n := w.AuditCount(t, w.A.OrgID)
	assert.JSONEq(t, `{"dry_run": true, `+promoted+`}`, string(w.do(t, "POST", "/environments/promote", body).Require(t, 201).Body))
	assert.Equal(t, n, w.AuditCount(t, w.A.OrgID), "nothing is changed")
	w.Clock.Advance(time.Minute)
	delete(body, "dry_run")
	assert.JSONEq(t, `{"dry_run": false, `+promoted+`}`, string(w.do(t, "POST", "/environments/promote", body).Require(t, 201).Body))
	assert.Equal(t, map[string]string{"SAME": "1", "OTHER": "s", "NEW": "n", "OFF": "(x)", "ONLY": "p"}, w.state(t, "production"))
	made := w.do(t, "GET", "/deployments/load-production", nil).Require(t, 200)
	assert.Equal(t, []any{"load", "7", "production", json.Number("1")},
		[]any{made.Get(t, "flow_name"), made.Get(t, "flow_version"), made.Get(t, "environment"), made.Get(t, "deployment_version")})
	assert.Equal(t, "2", w.do(t, "GET", "/deployments/etl-production", nil).String(t, "flow_version"))
	assert.Equal(t, "1", w.do(t, "GET", "/deployments/old", nil).String(t, "flow_version"), "nothing is removed")
	assert.Equal(t, "staging", w.do(t, "GET", "/deployments/etl-staging", nil).String(t, "environment"))
	assert.ElementsMatch(t, []string{"promote environment production", "promote deployment etl-production", "promote deployment load-production"}, w.actions(t, n))
	assert.JSONEq(t, nothing, string(w.do(t, "POST", "/environments/promote", body).Require(t, 201).Body))
	w.do(t, "DELETE", "/environments/production", nil).Require(t, 409)
}

// TestPromotedSchedules: a new deployment gets the schedule of the source's, enabled,
// even if that was disabled, and the answer says so. Others keep their own.
func TestPromotedSchedules(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	for name, cron := range map[string]string{"load-staging": "30 6 * * *", "etl-staging": "0 1 * * *", "etl-production": "0 2 * * *"} {
		w.do(t, "PUT", "/deployments/"+name+"/settings", object{"schedule": cron, "timezone": "Europe/Berlin"}).Require(t, 200)
	}
	w.do(t, "PATCH", "/schedules/deployment.load-staging", object{"enabled": false}).Require(t, 200)
	body := object{"source": "staging", "target": "production", "dry_run": true}
	planned := w.do(t, "POST", "/environments/promote", body).Require(t, 201)
	w.do(t, "GET", "/deployments/load-production", nil).Require(t, 404)
	w.do(t, "GET", "/schedules/deployment.load-production", nil).Require(t, 404)
	delete(body, "dry_run")
	done := w.do(t, "POST", "/environments/promote", body).Require(t, 201)

	made := w.do(t, "GET", "/schedules/deployment.load-production", nil).Require(t, 200)
	assert.Equal(t, true, made.Get(t, "enabled"))
	for _, answer := range []*localtest.Response{planned, done} {
		assert.Equal(t, "changed", answer.Get(t, "deployments", 0, "action"))
		assert.Nil(t, answer.Get(t, "deployments", 0, "schedule"), "it keeps its own")
		assert.Equal(t, object{
			"schedule_id": "deployment.load-production", "cron_expression": "30 6 * * *", "timezone": "Europe/Berlin",
			"enabled": true, "next_run_epoch": made.Get(t, "next_run_epoch"),
		}, answer.Get(t, "deployments", 1, "schedule"))
	}
	kept := w.do(t, "GET", "/schedules/deployment.etl-production", nil).Require(t, 200)
	assert.Equal(t, "0 2 * * *", kept.Get(t, "cron_expression"))
}

// TestDryRunOfPromotionFindsWhatItWouldFailAt: the runs of the version would be refused.
func TestDryRunOfPromotionFindsWhatItWouldFailAt(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	registrytest.Register(t, w.store, w.A.OrgID, "load", "8", `{"parameters": {"type": "object", "required": ["day"]},
		"tasks": [{"name": "t", "type": "transform", "config": {"expression": "1"}}]}`, "")
	w.deploy(t, "load-staging", "load", "8", "staging")
	w.deploy(t, "load-production", "load", "7", "production")
	w.do(t, "PUT", "/deployments/load-production/settings", object{"schedule": "@daily"}).Require(t, 200)
	for _, dry := range []bool{true, false} {
		refused := w.do(t, "POST", "/environments/promote", object{"source": "staging", "target": "production", "dry_run": dry, "variables": []string{}}).Require(t, 422)
		assert.Contains(t, refused.String(t, "detail", 0, "msg"), "the runs of the deployment's schedule would be refused")
	}
}

func TestPromoteWhatWasChosen(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	promote := func(more object) *localtest.Response {
		body := object{"source": "staging", "target": "production"}
		for k, v := range more {
			body[k] = v
		}
		return w.do(t, "POST", "/environments/promote", body)
	}
	assert.JSONEq(t, nothing, string(promote(object{"deployments": []string{}, "variables": []string{"SAME"}}).Require(t, 201).Body))
	for name, more := range map[string]object{
		"the same environment": {"source": "production"}, "no source": {"source": "none"}, "no target": {"target": "none"},
		"a deployment of the target": {"deployments": []string{"etl-production"}}, "twice": {"deployments": []string{"etl-staging", "etl-staging"}},
		"a variable of the target": {"variables": []string{"ONLY"}}, "a field": {"secrets": []string{}}, "no list": {"variables": "NEW"},
	} {
		assert.Equal(t, 422, promote(more).Code, name)
	}
	w.deploy(t, "etl-two", "etl", "1", "staging")
	several := promote(nil).Require(t, 422)
	assert.Contains(t, several.String(t, "detail", 0, "msg"), "flow 'etl' has deployments with several versions")
	assert.Equal(t, map[string]string{"SAME": "1", "OTHER": "p", "ONLY": "p", "OFF": "x"}, w.state(t, "production"))
	one := promote(object{"deployments": []string{"etl-staging"}, "variables": []string{"NEW"}}).Require(t, 201)
	assert.Len(t, one.Get(t, "deployments"), 1)
	before := w.state(t, "production")
	assert.Equal(t, map[string]string{"SAME": "1", "OTHER": "p", "ONLY": "p", "OFF": "x", "NEW": "n"}, before)

	w.deploy(t, "load-production", "etl", "1", "default")
	promote(object{"deployments": []string{"load-staging"}, "dry_run": true}).Require(t, 409)
	taken := promote(object{"deployments": []string{"load-staging"}}).Require(t, 409)
	assert.Contains(t, taken.String(t, "detail"), "'load-production'")
	assert.Equal(t, before, w.state(t, "production"), "it is refused before a variable is changed")
}

func TestProtectedEnvironments(t *testing.T) {
	t.Parallel()
	w := furnished(t, localtest.Options{})
	w.do(t, "PATCH", "/environments/production", object{"protected": true}).Require(t, 200)
	body := object{"source": "staging", "target": "production", "dry_run": true}
	scoped := w.Key(t, w.A, "environments.write", "environments.read")
	w.Do(t, scoped, "POST", "/environments/promote", body).Require(t, 403)
	w.Do(t, scoped, "POST", "/environments/promote", object{"source": "production", "target": "staging", "dry_run": true}).Require(t, 201)
	w.Do(t, w.User(t, w.A, tenant.Developer), "POST", "/environments/promote", body).Require(t, 403)
	for _, credential := range []string{w.User(t, w.A, tenant.Admin), w.User(t, w.A, tenant.Owner), w.A.Key} {
		w.Do(t, credential, "POST", "/environments/promote", body).Require(t, 201)
	}
}

// TestPromotingSurvivesACrashAtEveryWrite: repeated, it does what is left.
func TestPromotingSurvivesACrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	body := object{"source": "staging", "target": "production"}
	for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
		for n, met := 0, true; met; n++ {
			var faults *registrytest.Faults
			w := furnished(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
				faults = registrytest.Wrap(inner)
				return faults
			}})
			before := w.AuditCount(t, w.A.OrgID)
			faults.Break(n, fault)
			w.do(t, "POST", "/environments/promote", body)
			met = faults.Heal()
			w.do(t, "POST", "/environments/promote", body).Require(t, 201)
			assert.JSONEq(t, nothing, string(w.do(t, "POST", "/environments/promote", body).Require(t, 201).Body))
			assert.Equal(t, map[string]string{"SAME": "1", "OTHER": "s", "NEW": "n", "OFF": "(x)", "ONLY": "p"}, w.state(t, "production"))
			for name, version := range map[string]string{"etl-production": "2", "load-production": "7"} {
				assert.Equal(t, version, w.do(t, "GET", "/deployments/"+name, nil).Require(t, 200).String(t, "flow_version"))
			}
			require.Equal(t, before+3, w.AuditCount(t, w.A.OrgID), "each change is made once")
		}
	}
}
