package schedules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry/registrytest"
)

// deploy makes or changes the deployment prod of the flow daily.
func (w *world) deploy(fields object) *localtest.Response {
	w.t.Helper()
	body := object{"deployment_name": "prod", "flow_name": "daily", "flow_version": "1"}
	for name, value := range fields {
		body[name] = value
	}
	return w.Do(w.t, w.A.Key, "POST", "/deployments", body)
}

func (w *world) settings(fields object) *localtest.Response {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "PUT", "/deployments/prod/settings", fields)
}

// ids are the ids of all schedules.
func (w *world) ids() (all []any) {
	w.t.Helper()
	for _, item := range w.Do(w.t, w.A.Key, "GET", "/schedules", nil).Require(w.t, 200).Items(w.t) {
		all = append(all, item.(object)["schedule_id"])
	}
	return all
}

const own = "deployment.prod"

func TestScheduleSetOnDeployment(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.at("2027-03-04T05:06:07Z")
	before := w.AuditCount(t, w.A.OrgID)
	made := w.deploy(object{"schedule": "30 6 * * *", "timezone": "Europe/Berlin"}).Require(t, 200)
	next := json.Number("1804138200") // 2027-03-04T05:30:00Z
	assert.Equal(t, []any{"30 6 * * *", "Europe/Berlin", own, next},
		[]any{made.Get(t, "schedule"), made.Get(t, "timezone"), made.Get(t, "schedule_id"), made.Get(t, "next_run_epoch")})
	shown := w.get(own)
	for field, want := range map[string]any{
		"flow_name": "daily", "flow_version": nil, "deployment": "prod", "set_on_deployment": true, "mode": "cron",
		"cron_expression": "30 6 * * *", "timezone": "Europe/Berlin", "enabled": true, "next_run_epoch": next,
	} {
		assert.Equal(t, want, shown.Get(t, field), field)
	}
	same := w.deploy(object{"schedule": "30 6 * * *"}).Require(t, 200)
	assert.Equal(t, []any{json.Number("1"), next}, []any{same.Get(t, "deployment_version"), same.Get(t, "next_run_epoch")})
	assert.Equal(t, 1, w.AuditCount(t, w.A.OrgID)-before, "the entry of the deployment tells of its schedule")
	entries := w.Audit(t, w.A.OrgID)
	assert.Contains(t, entries[len(entries)-1].After, `"schedule":"30 6 * * *"`)

	w.at("2027-03-04T05:30:00Z")
	w.tick(2)
	assert.Equal(t, []string{"2027-03-04T05:30:00.000Z"}, w.dates())
	w.flow("daily", "2")
	w.Do(t, w.A.Key, "PATCH", "/deployments/prod", object{"flow_version": "2"}).Require(t, 200)
	assert.Equal(t, json.Number("1804224600"), w.get(own).Get(t, "next_run_epoch"), "another version changes no timing")
	w.at("2027-03-05T05:30:00Z")
	w.tick(1)
	runs := w.Do(t, w.A.Key, "GET", "/runs", nil).Require(t, 200).Items(t)
	assert.Equal(t, []any{"2", "prod"}, []any{runs[0].(object)["flow_version"], runs[0].(object)["deployment"]})

	w.settings(object{"schedule": "@hourly"}).Require(t, 200)
	assert.Equal(t, json.Number("1804226400"), w.get(own).Get(t, "next_run_epoch"))
	w.settings(object{"schedule": nil}).Require(t, 200)
	w.Do(t, w.A.Key, "GET", "/schedules/"+own, nil).Require(t, 404)
	back := w.Do(t, w.A.Key, "POST", "/deployments/prod/rollback", nil).Require(t, 200)
	assert.Equal(t, "@hourly", back.Get(t, "schedule"))
	assert.Equal(t, "Europe/Berlin", w.get(own).Get(t, "timezone"))
	gone := w.Do(t, w.A.Key, "POST", "/deployments/prod/rollback", object{"deployment_version": 4}).Require(t, 200)
	assert.Nil(t, gone.Get(t, "schedule"))
	assert.Nil(t, gone.Get(t, "schedule_id"))
	assert.Empty(t, w.ids())

	w.settings(object{"schedule": "@daily"}).Require(t, 200)
	w.settings(object{"schedule": ""}).Require(t, 200)
	assert.Empty(t, w.ids())
	w.settings(object{"schedule": "@daily"}).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/deployments/prod", nil).Require(t, 200)
	assert.Empty(t, w.ids())
	w.at("2027-03-06T05:30:00Z")
	w.tick(1)
	assert.Len(t, w.dates(), 2, "nothing is due any more")
}

func TestScheduleOfADeploymentIsChangedThere(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.at("2027-03-04T05:06:07Z")
	w.Environments(t, w.A, "staging")
	w.deploy(object{"schedule": "@daily"}).Require(t, 200)
	patch := func(fields object) *localtest.Response {
		return w.Do(t, w.A.Key, "PATCH", "/schedules/"+own, fields)
	}
	for _, fields := range []object{
		{"cron_expression": "@hourly"}, {"timezone": "Europe/Berlin"}, {"mode": "interval", "interval_seconds": 60},
		{"deployment": nil, "flow_version": "1"}, {"flow_name": "other"},
	} {
		refused := patch(fields).Require(t, 409)
		assert.Contains(t, refused.String(t, "detail"), "deployment 'prod'")
	}
	w.put(own, cron("@daily", "UTC")).Require(t, 409)
	w.put("deployment.other", nil).Require(t, 422)

	patch(object{"enabled": false, "parameters": object{"day": "monday"}, "catchup_policy": "all", "environment": "staging"}).Require(t, 200)
	w.settings(object{"schedule": "@hourly"}).Require(t, 200)
	shown := w.get(own)
	assert.Equal(t, []any{false, nil, "@hourly", "all"},
		[]any{shown.Get(t, "enabled"), shown.Get(t, "next_run_epoch"), shown.Get(t, "cron_expression"), shown.Get(t, "catchup_policy")})
	patch(object{"enabled": true}).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/schedules/"+own+"/trigger", nil).Require(t, 200)

	// With the deployment goes what its schedule kept from being deleted.
	w.Do(t, w.A.Key, "DELETE", "/environments/staging", nil).Require(t, 409)
	w.Do(t, w.A.Key, "DELETE", "/deployments/prod", nil).Require(t, 200)
	refused := w.Do(t, w.A.Key, "DELETE", "/environments/staging", nil)
	assert.NotContains(t, string(refused.Body), own)
	w.Do(t, w.A.Key, "PATCH", "/schedules/"+own, object{"enabled": true}).Require(t, 404)
}

func TestBadSchedulesOfDeployments(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Do(t, w.A.Key, "POST", "/flows", object{"flow_name": "daily", "flow_version": "strict", "flow_spec": object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string"}}, "required": []string{"day"}},
		"tasks":      []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(t, 200)
	w.deploy(object{"schedule": "@daily"}).Require(t, 200)
	before := w.AuditCount(t, w.A.OrgID)
	for field, fields := range map[string]object{
		"schedule":                 {"schedule": "0 0 30 2 *"},
		"schedule ":                {"schedule": "@every 1m"},
		"timezone":                 {"timezone": "Mars/Base"},
		"schedule: parameters.day": {"flow_version": "strict"},
	} {
		refused := w.deploy(fields).Require(t, 422)
		name, _, _ := strings.Cut(strings.TrimSpace(field), ":")
		assert.Equal(t, []any{"body", name}, refused.Get(t, "detail", 0, "loc"), field)
	}
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
	w.deploy(object{"flow_version": "strict", "parameters": object{"day": "x"}}).Require(t, 200)

	long := strings.Repeat("x", 128)
	made := w.deploy(object{"deployment_name": long, "schedule": "@daily"}).Require(t, 200)
	assert.Len(t, made.String(t, "schedule_id"), 128)
	w.get(made.String(t, "schedule_id"))
}

// TestDeploymentAndScheduleChangeTogether: a crash at any write leaves both as they
// were or both changed, and the same request repeated completes it.
func TestDeploymentAndScheduleChangeTogether(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world) *localtest.Response{
		"set":    func(w *world) *localtest.Response { return w.deploy(object{"schedule": "@hourly"}) },
		"clear":  func(w *world) *localtest.Response { return w.deploy(object{"schedule": ""}) },
		"delete": func(w *world) *localtest.Response { return w.Do(w.t, w.A.Key, "DELETE", "/deployments/prod", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range []registrytest.Fault{registrytest.Before, registrytest.After} {
				for n, met := 0, true; met; n++ {
					var faults *registrytest.Faults
					w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
						faults = registrytest.Wrap(inner)
						return faults
					}})
					w.deploy(object{"schedule": "@daily"}).Require(t, 200)
					before := w.AuditCount(t, w.A.OrgID)
					faults.Break(n, fault)
					change(w)
					met = faults.Heal()
					w.consistent()
					change(w)
					w.consistent()
					assert.Equal(t, 1, w.AuditCount(t, w.A.OrgID)-before)
				}
			}
		})
	}
}

// consistent checks that the deployment prod and its schedule agree.
func (w *world) consistent() {
	w.t.Helper()
	deployed := w.Do(w.t, w.A.Key, "GET", "/deployments/prod", nil)
	found := w.Do(w.t, w.A.Key, "GET", "/schedules/"+own, nil)
	if deployed.Code == 404 || deployed.Get(w.t, "schedule") == nil {
		found.Require(w.t, 404)
		return
	}
	assert.Equal(w.t, deployed.Get(w.t, "schedule"), found.Require(w.t, 200).Get(w.t, "cron_expression"))
}
