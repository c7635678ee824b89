package schedules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/deployments"
	"millrace/functions/environments"
	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/schedules"
	"millrace/localstack/proof/localtest"
)

type object = map[string]any

// world is the service with the operations around schedules, and the flow daily.
type world struct {
	*localtest.Env
	t *testing.T
}

func open(t *testing.T, o localtest.Options) *world {
	t.Helper()
	w := &world{localtest.Open(t, o, append(schedules.Specs, flows.Spec, deployments.Spec, environments.Spec, runs.Spec)...), t}
	w.flow("daily", "1")
	return w
}

func (w *world) flow(name, version string) {
	w.t.Helper()
	w.Do(w.t, w.A.Key, "POST", "/flows", object{"flow_name": name, "flow_version": version, "flow_spec": object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string"}}, "additionalProperties": false},
		"tasks":      []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(w.t, 200)
}

// put creates or replaces a schedule of the flow daily.
func (w *world) put(id string, fields object) *localtest.Response {
	w.t.Helper()
	body := object{"schedule_id": id, "flow_name": "daily", "flow_version": "1", "mode": "interval", "interval_seconds": 3600}
	for name, value := range fields {
		if body[name] = value; value == nil {
			delete(body, name)
		}
	}
	return w.Do(w.t, w.A.Key, "POST", "/schedules", body)
}

// cron are the fields of a schedule by an expression.
func cron(expression, zone string) object {
	return object{"mode": "cron", "interval_seconds": nil, "cron_expression": expression, "timezone": zone}
}

func (w *world) get(id string) *localtest.Response {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "GET", "/schedules/"+id, nil).Require(w.t, 200)
}

// at sets the clock.
func (w *world) at(text string) time.Time {
	w.t.Helper()
	now, err := time.Parse(time.RFC3339, text)
	require.NoError(w.t, err)
	w.Clock.Set(now)
	return now
}

func TestAccess(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.put("nightly", nil).Require(t, 200)
	w.CheckAccess(t, "schedules-put", "/schedules", object{"flow_name": "daily", "flow_version": "1", "mode": "interval", "interval_seconds": 60})
	w.CheckAccess(t, "schedules-list", "/schedules", nil)
	w.CheckAccess(t, "schedules-get", "/schedules/nightly", nil)
	w.CheckAccess(t, "schedules-patch", "/schedules/nightly", object{"enabled": true})
	w.CheckAccess(t, "schedules-trigger", "/schedules/nightly/trigger", nil)
	w.Do(t, w.B.Key, "GET", "/schedules/nightly", nil).Require(t, 404)
}

func TestScheduleLifecycle(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	now := w.at("2027-03-04T05:06:07Z")
	before := w.AuditCount(t, w.A.OrgID)
	made := w.put("nightly", cron("30 6 * * *", "Europe/Berlin")).Require(t, 200)
	actor, created := made.String(t, "created_by"), made.String(t, "created_at")
	next := json.Number("1804138200") // 2027-03-04T05:30:00Z
	assert.WithinDuration(t, now, at(t, created), time.Minute)
	assert.Equal(t, object{
		"schedule_id": "nightly", "flow_name": "daily", "flow_version": "1", "deployment": nil, "set_on_deployment": false, "mode": "cron", "interval_seconds": nil,
		"cron_expression": "30 6 * * *", "timezone": "Europe/Berlin", "enabled": true, "catchup_policy": "none", "environment": nil,
		"parameters": object{}, "execution_mode": nil, "next_run_epoch": next, "last_run_at": nil, "last_run_id": nil, "last_error": nil,
		"created_at": created, "created_by": actor, "updated_at": created, "updated_by": actor,
	}, made.Object(t))
	assert.JSONEq(t, string(made.Body), string(w.get("nightly").Body))

	w.Clock.Advance(time.Minute)
	again := w.put("nightly", cron("30 6 * * *", "Europe/Berlin")).Require(t, 200)
	assert.Equal(t, made.Object(t), again.Object(t), "the same again changes nothing")
	patched := w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"parameters": object{"day": "monday"}, "environment": "default"}).Require(t, 200)
	assert.Equal(t, object{"day": "monday"}, patched.Get(t, "parameters"))
	assert.Equal(t, next, patched.Get(t, "next_run_epoch"))
	cleared := w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"parameters": nil, "environment": nil}).Require(t, 200)
	assert.Equal(t, object{}, cleared.Get(t, "parameters"))
	assert.Nil(t, cleared.Get(t, "environment"))
	disabled := w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": false}).Require(t, 200)
	assert.Nil(t, disabled.Get(t, "next_run_epoch"))
	every := w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"mode": "interval", "interval_seconds": 90, "cron_expression": nil, "enabled": true}).Require(t, 200)
	assert.Equal(t, json.Number("1804136917"), every.Get(t, "next_run_epoch"), "one interval after now")

	var actions []string
	for _, entry := range w.Audit(t, w.A.OrgID)[before:] {
		assert.Equal(t, "schedule", entry.ResourceType)
		actions = append(actions, entry.Action)
	}
	assert.Equal(t, []string{"create", "update", "update", "update", "update"}, actions)
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return out
}

func TestListOfSchedules(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.flow("other", "1")
	w.put("a", nil).Require(t, 200)
	w.put("b", object{"flow_name": "other"}).Require(t, 200)
	w.put("c", cron("@daily", "UTC")).Require(t, 200)
	w.put("d", object{"enabled": false}).Require(t, 200)
	for query, want := range map[string]string{
		"":                                       "a b c d",
		"?flow_name=other":                       "b",
		"?mode=cron":                             "c",
		"?enabled=true":                          "a b c",
		"?enabled=false&mode=interval":           "d",
		"?limit=2":                               "a b",
		"?flow_name=daily&limit=2&mode=interval": "a d",
	} {
		var ids []string
		for _, item := range w.Do(t, w.A.Key, "GET", "/schedules"+query, nil).Require(t, 200).Items(t) {
			ids = append(ids, item.(object)["schedule_id"].(string))
		}
		assert.Equal(t, want, strings.Join(ids, " "), query)
	}
	w.Do(t, w.A.Key, "GET", "/schedules?limit=0", nil).Require(t, 422)
	w.Do(t, w.A.Key, "GET", "/schedules?mode=hourly", nil).Require(t, 422)
	assert.Empty(t, w.Do(t, w.B.Key, "GET", "/schedules", nil).Require(t, 200).Items(t))
}

func TestSchedulesThatAreRejected(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "prod", "flow_name": "daily", "flow_version": "1"}).Require(t, 200)
	for name, c := range map[string]struct {
		fields object
		status int
		says   string
	}{
		"no flow":                   {object{"flow_name": nil, "flow_version": nil}, 422, "either deployment, or both flow_name and flow_version"},
		"no version":                {object{"flow_version": nil}, 422, "either deployment"},
		"an unknown flow":           {object{"flow_name": "nobody"}, 404, "nobody"},
		"an unknown version":        {object{"flow_version": "2"}, 404, "2"},
		"an unknown deployment":     {object{"deployment": "nobody", "flow_version": nil}, 404, "nobody"},
		"a deployment and version":  {object{"deployment": "prod"}, 422, "the deployment selects the version"},
		"another deployment's flow": {object{"deployment": "prod", "flow_name": "other", "flow_version": nil}, 422, "the deployment is of the flow daily"},
		"a parameter":               {object{"parameters": object{"dya": "x"}}, 422, "dya"},
		"a reserved parameter":      {object{"parameters": object{"__svc_x": 1}}, 422, "reserved"},
		"an unknown tier":           {object{"execution_mode": "huge"}, 400, "huge"},
		"no interval":               {object{"interval_seconds": nil}, 422, "needs interval_seconds"},
		"a short interval":          {object{"interval_seconds": 59}, 422, "60"},
		"no expression":             {object{"mode": "cron"}, 422, "needs cron_expression"},
		"six fields":                {cron("0 0 * * * *", "UTC"), 422, "five are expected"},
		"an interval as expression": {cron("@every 5m", "UTC"), 422, "use an interval"},
		"30 February":               {cron("0 0 30 2 *", "UTC"), 422, "no day on which it occurs"},
		"an unknown zone":           {cron("@daily", "Mars/Olympus"), 422, "no time zone of this name"},
		"the machine's zone":        {cron("@daily", "Local"), 422, "no time zone of this name"},
		"a mode":                    {object{"mode": "daily"}, 422, "interval"},
		"a policy":                  {object{"catchup_policy": "some"}, 422, "none"},
		"a field":                   {object{"cron": "@daily"}, 422, "cron"},
		"an id":                     {object{"schedule_id": "a b"}, 422, "schedule_id"},
	} {
		answer := w.put("x", c.fields).Require(t, c.status)
		assert.Contains(t, string(answer.Body), c.says, name)
	}
	w.Do(t, w.A.Key, "GET", "/schedules/x", nil).Require(t, 404)
	w.Do(t, w.A.Key, "PATCH", "/schedules/x", object{"enabled": false}).Require(t, 404)
	w.Do(t, w.A.Key, "POST", "/schedules/x/trigger", nil).Require(t, 404)

	w.put("x", nil).Require(t, 200)
	for _, patch := range []object{
		{"interval_seconds": nil}, {"mode": "cron"}, {"flow_version": "7"}, {"parameters": object{"dya": "x"}}, {"schedule_id": "y"}, {"enabled": "no"},
	} {
		answer := w.Do(t, w.A.Key, "PATCH", "/schedules/x", patch)
		assert.Contains(t, []int{404, 422}, answer.Code, patch)
	}
	assert.Equal(t, json.Number("3600"), w.get("x").Get(t, "interval_seconds"))
}

func TestFlowOfAnEnabledScheduleIsKept(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.flow("other", "1")
	w.put("nightly", nil).Require(t, 200)
	refused := w.Do(t, w.A.Key, "DELETE", "/flows/daily", nil).Require(t, 409)
	assert.Contains(t, refused.String(t, "detail"), "schedule 'nightly'")
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"flow_name": "other"}).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/flows/daily", nil).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/flows/other", nil).Require(t, 409)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": false}).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/flows/other", nil).Require(t, 200)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": true}).Require(t, 404)
}

func TestEnvironmentOfAnEnabledScheduleIsKept(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.put("nightly", object{"environment": "staging"}).Require(t, 422)
	for _, name := range []string{"staging", "production"} {
		w.Do(t, w.A.Key, "POST", "/environments", object{"name": name}).Require(t, 201)
	}
	w.put("nightly", object{"environment": "staging"}).Require(t, 200)
	refused := w.Do(t, w.A.Key, "DELETE", "/environments/staging", nil).Require(t, 409)
	assert.Contains(t, refused.String(t, "detail"), "schedule 'nightly'")
	assert.Contains(t, refused.String(t, "detail"), "disable its schedules")
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"environment": "production"}).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/environments/staging", nil).Require(t, 200)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": false}).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/environments/production", nil).Require(t, 200)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": true}).Require(t, 422)
	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": true, "environment": nil}).Require(t, 200)
}

func TestTriggerStartsARunNow(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.put("nightly", object{"parameters": object{"day": "monday"}, "enabled": false, "execution_mode": "small"}).Require(t, 200)
	for body, want := range map[string]object{"": {"day": "monday"}, `{"parameters":{"day":"today"}}`: {"day": "today"}} {
		var sent any
		if body != "" {
			sent = json.RawMessage(body)
		}
		run := w.Do(t, w.A.Key, "POST", "/schedules/nightly/trigger", sent).Require(t, 200)
		assert.Equal(t, "schedule", run.String(t, "trigger_source"))
		assert.Equal(t, "small", run.String(t, "execution_mode"))
		detail := w.Do(t, w.A.Key, "GET", "/runs/"+run.String(t, "run_id"), nil).Require(t, 200)
		assert.Equal(t, want, detail.Get(t, "parameters"))
		assert.True(t, strings.HasPrefix(detail.String(t, "triggered_by"), "api-key:"))
	}
	w.Do(t, w.A.Key, "POST", "/schedules/nightly/trigger", object{"parameters": object{"dya": "x"}}).Require(t, 422)
	assert.Nil(t, w.get("nightly").Get(t, "last_run_id"), "it is no occurrence")
}
