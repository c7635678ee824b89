package runs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
)

var chain = tasks(transform("a", "1 + 1"), transform("b", "tasks.a.output * 21", after("a")))

func TestRunOfDeploymentOrFlowVersion(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	w.flow(t, "etl", "2", tasks(transform("a", "2")))
	w.flow(t, "other", "1", chain)
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "prod", "flow_name": "etl", "flow_version": "2"}).Require(t, 200)

	for name, body := range map[string]object{
		"nothing":       {},
		"no version":    {"flow_name": "etl"},
		"no name":       {"flow_version": "1"},
		"empty":         {"flow_name": "", "flow_version": ""},
		"null":          {"deployment": nil, "flow_name": nil, "flow_version": "1"},
		"empty version": {"flow_name": "etl", "flow_version": ""},
	} {
		res := w.Do(t, w.A.Key, "POST", "/runs", body)
		assert.Equal(t, 400, res.Code, "%s: %s", name, res.Body)
	}
	run := w.Do(t, w.A.Key, "POST", "/runs", object{"deployment": "prod", "flow_name": "other", "flow_version": "1"}).Require(t, 200).Object(t)
	assert.Equal(t, "etl", run["flow_name"], "the deployment decides")
	assert.Equal(t, "2", run["flow_version"])
	assert.Equal(t, "prod", run["deployment"])
	run = w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"}).Require(t, 200).Object(t)
	assert.Equal(t, "1", run["flow_version"])
	assert.Nil(t, run["deployment"])
}

func TestRunInheritsEnvironmentAndTierOfDeployment(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	w.Do(t, w.A.Key, "POST", "/deployments", object{
		"deployment_name": "prod", "flow_name": "etl", "flow_version": "1", "environment": "production", "execution_mode": "large",
		"parameters": object{"day": "monday", "kept": 1},
	}).Require(t, 200)
	run := w.Do(t, w.A.Key, "POST", "/runs", object{"deployment": "prod", "parameters": object{"day": "friday"}}).Require(t, 200)
	assert.Equal(t, "production", run.String(t, "environment"))
	assert.Equal(t, "large", run.String(t, "execution_mode"))
	assert.Equal(t, map[string]any{"day": "friday", "kept": json.Number("1")}, w.get(t, run.String(t, "run_id")).Parameters)

	w.Environments(t, w.A, "staging")
	run = w.Do(t, w.A.Key, "POST", "/runs", object{"deployment": "prod", "environment": "staging", "execution_mode": "micro"}).Require(t, 200)
	assert.Equal(t, "staging", run.String(t, "environment"))
	assert.Equal(t, "micro", run.String(t, "execution_mode"))

	w.Do(t, w.A.Key, "PUT", "/deployments/prod/settings", object{"status": "INACTIVE"}).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/runs", object{"deployment": "prod"}).Require(t, 409)
}

func TestTierOfRun(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	for _, mode := range []string{"nano", "micro", "small", "medium", "large", "xlarge"} {
		run := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execution_mode": mode}).Require(t, 200)
		assert.Equal(t, mode, run.String(t, "execution_mode"))
	}
	for _, mode := range []string{"giant", "NANO", " nano"} {
		w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execution_mode": mode}).Require(t, 400)
	}
	run := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "execution_mode": nil}).Require(t, 200)
	assert.Equal(t, "nano", run.String(t, "execution_mode"), "the flow version's")
}

func TestReservedParametersAreRejected(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	before := w.AuditCount(t, w.A.OrgID)
	res := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "parameters": object{"__svc_x": 1, "ok": 2}}).Require(t, 422)
	assert.Equal(t, []any{"body", "parameters", "__svc_x"}, res.Get(t, "detail", 0, "loc"))
	w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "parameters": object{"__svc": 1}}).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "parameters": object{"x": strings.Repeat("x", 256<<10)}}).Require(t, 422)
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
}

func TestRunRecord(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	run := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"}).Require(t, 200).Object(t)
	assert.ElementsMatch(t, []string{
		"run_id", "run_slug", "flow_name", "flow_version", "deployment", "environment", "execution_mode", "trigger_source", "status", "created_at",
	}, keysOf(run))
	assert.Regexp(t, `^[0-9A-HJKMNP-TV-Z]{26}$`, run["run_id"])
	assert.Regexp(t, `^[a-z]+-[a-z]+-[a-z]+-[0-9]+$`, run["run_slug"])
	assert.Equal(t, "QUEUED", run["status"])
	assert.Equal(t, "default", run["environment"])
	created, err := time.Parse("2006-01-02T15:04:05.000Z", run["created_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, w.Clock.Now(), created, time.Minute)

	item := w.Do(t, w.A.Key, "GET", "/runs", nil).Require(t, 200).Get(t, "items", 0).(object)
	for k, v := range run {
		assert.Equal(t, v, item[k], k)
	}
	assert.Contains(t, item["triggered_by"], "api-key:")
	for _, k := range []string{"started_at", "ended_at", "duration_ms"} {
		assert.Contains(t, item, k)
		assert.Nil(t, item[k], k)
	}
	assert.Contains(t, w.audited(t, run["run_id"].(string), "create").After, run["run_slug"])
}

func TestTriggerSources(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", tasks(transform("a", "1", object{"condition": "params.go == true"})))
	d := w.finish(t, "etl", object{"go": false})
	assert.Equal(t, "manual", d.TriggerSource)
	assert.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, []string{"a#1 SKIPPED"}, brief(d.TaskRuns), "a task's states are its own")
	retried := w.Do(t, w.A.Key, "POST", "/runs/"+d.RunID+"/retry", nil).Require(t, 200)
	assert.Equal(t, "retry", retried.String(t, "trigger_source"))
}

func TestParametersStayExact(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "echo", "1", object{
		"parameters": object{"type": "object", "properties": object{"n": object{"type": "integer"}, "mode": object{"default": "fast"}}, "required": []string{"n"}},
		"tasks":      []object{transform("a", "params.n")},
	})
	body := `{"flow_name":"echo","flow_version":"1","parameters":{"n":9007199254740993,"text":"<&>é"}}`
	id := w.Do(t, w.A.Key, "POST", "/runs", body).Require(t, 200).String(t, "run_id")
	d := w.ended(t, id)
	assert.Equal(t, map[string]any{"n": json.Number("9007199254740993"), "text": "<&>é", "mode": "fast"}, d.Parameters, "the default applies")
	require.Equal(t, "SUCCEEDED", d.Status)
	assert.Equal(t, json.Number("9007199254740993"), d.TaskRuns[0].Output)
	res := w.Do(t, w.A.Key, "POST", "/runs", object{"flow_name": "echo", "flow_version": "1", "parameters": object{"n": "x"}}).Require(t, 422)
	assert.Equal(t, []any{"body", "parameters", "n"}, res.Get(t, "detail", 0, "loc"))
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	w.flow(t, "other", "1", chain)
	post := func(k, body string) *response { return w.post(t, k, body) }
	before := w.AuditCount(t, w.A.OrgID)
	first := post("k1", `{"flow_name":"etl","flow_version":"1","parameters":{"a":1,"b":[1,2]}}`).Require(t, 200)
	again := post("k1", `{ "parameters": {"b":[1, 2],"a":1}, "flow_version":"1", "flow_name":"etl"}`).Require(t, 200)
	assert.JSONEq(t, string(first.Body), string(again.Body))
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
	post("k1", `{"flow_name":"etl","flow_version":"1","parameters":{"a":2,"b":[1,2]}}`).Require(t, 422)
	post("k1", `{"flow_name":"etl","flow_version":"1"}`).Require(t, 422)
	assert.NotEqual(t, first.String(t, "run_id"), post("k2", `{"flow_name":"etl","flow_version":"1"}`).Require(t, 200).String(t, "run_id"))
	post("k1", `{"flow_name":"other","flow_version":"1"}`).Require(t, 200)
	assert.Equal(t, before+3, w.AuditCount(t, w.A.OrgID), "a key is of one flow")
	post(strings.Repeat("k", 256), `{"flow_name":"etl","flow_version":"1"}`).Require(t, 422)

	w.Do(t, w.A.Key, "POST", "/runs/"+first.String(t, "run_id")+"/cancel", nil).Require(t, 200)
	assert.JSONEq(t, string(first.Body), string(post("k1", `{"flow_name":"etl","flow_version":"1","parameters":{"a":1,"b":[1,2]}}`).Require(t, 200).Body), "the first answer, not the run as it is")

	w.Clock.Advance(24*time.Hour + time.Second)
	late := post("k1", `{"flow_name":"etl","flow_version":"1"}`).Require(t, 200)
	assert.NotEqual(t, first.String(t, "run_id"), late.String(t, "run_id"), "a key is forgotten after a day")
}

func TestIdempotencyUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	before := w.AuditCount(t, w.A.OrgID)
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			for {
				res := w.post(t, "same", `{"flow_name":"etl","flow_version":"1"}`)
				if res.Code == 409 { // the first is still being accepted
					continue
				}
				if assert.Equal(t, 200, res.Code, "%s", res.Body) {
					ids[i] = res.String(t, "run_id")
				}
				return
			}
		})
	}
	all.Wait()
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), 1)
	assert.Len(t, w.Do(t, w.A.Key, "GET", "/runs", nil).Items(t), 1)
	assert.Equal(t, before+1, w.AuditCount(t, w.A.OrgID))
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	nobody := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	before := w.AuditCount(t, w.A.OrgID)
	for _, c := range []struct {
		method, path string
		body         any
		code         int
	}{
		{"POST", "/runs", nil, 422},
		{"POST", "/runs", "[]", 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":"1","x":1}`, 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":1}`, 422},
		{"POST", "/runs", `{"flow_name":"a#b","flow_version":"1"}`, 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":"1","environment":"a#b"}`, 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":"1","parameters":[]}`, 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":"1","execute":"yes"}`, 422},
		{"POST", "/runs", `{"flow_name":"etl","flow_version":"9"}`, 404},
		{"POST", "/runs", `{"flow_name":"nope","flow_version":"1","execute":true}`, 404},
		{"POST", "/runs", `{"deployment":"nope"}`, 404},
		{"GET", "/runs?limit=ten", nil, 422},
		{"GET", "/runs?limit=1.5", nil, 422},
		{"GET", "/runs?since=yesterday", nil, 422},
		{"GET", "/runs?since=2026-13-01T00:00:00Z", nil, 422},
		{"GET", "/runs?flow_name=a%23b", nil, 422},
		{"GET", "/runs/" + nobody, nil, 404},
		{"GET", "/runs/nonsense", nil, 404},
		{"GET", "/runs/" + id + "%23t0", nil, 404},
		{"GET", "/runs/" + strings.Repeat("x", 3000), nil, 422},
		{"GET", "/runs/" + nobody + "/logs", nil, 404},
		{"GET", "/runs/nonsense/logs", nil, 404},
		{"GET", "/runs/" + id + "/logs?limit=0", nil, 422},
		{"GET", "/runs/" + id + "/logs?limit=x", nil, 422},
		{"GET", "/runs/" + id + "/logs?next_token=x", nil, 400},
		{"GET", "/runs/compare", nil, 422},
		{"GET", "/runs/compare?run_a=" + id, nil, 422},
		{"GET", "/runs/compare?run_b=" + id, nil, 422},
		{"GET", "/runs/compare?run_a=" + id + "&run_b=" + nobody, nil, 404},
		{"GET", "/runs/compare?run_a=x&run_b=" + id, nil, 404},
		{"POST", "/runs/" + nobody + "/cancel", nil, 404},
		{"POST", "/runs/nonsense/cancel", nil, 404},
		{"POST", "/runs/" + id + "/cancel", `{"x":1}`, 422},
		{"POST", "/runs/" + nobody + "/retry", nil, 404},
		{"POST", "/runs/nonsense/retry", nil, 404},
		{"POST", "/runs/" + id + "/retry", `{"parameters":{}}`, 422},
		{"POST", "/runs/" + id + "/retry", nil, 409},
		{"POST", "/runs/" + nobody + "/retry-from-failed", nil, 404},
		{"POST", "/runs/" + id + "/retry-from-failed", `{"parameters":{}}`, 422},
		{"POST", "/runs/" + id + "/retry-from-failed", `{}`, 409},
	} {
		res := w.Do(t, w.A.Key, c.method, c.path, c.body)
		assert.Equal(t, c.code, res.Code, "%s %s %v: %s", c.method, c.path, c.body, res.Body)
		assert.Contains(t, string(res.Body), `"detail"`)
	}
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
}

func TestAccess(t *testing.T) {
	t.Parallel()
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	for op, at := range map[string]struct {
		path string
		body any
	}{
		"runs-create":            {"/runs", object{"flow_name": "etl", "flow_version": "1"}},
		"runs-list":              {"/runs", nil},
		"runs-compare":           {"/runs/compare?run_a=" + id + "&run_b=" + id, nil},
		"runs-get":               {"/runs/" + id, nil},
		"runs-logs":              {"/runs/" + id + "/logs", nil},
		"runs-output":            {"/runs/" + id + "/tasks/a/output", nil},
		"runs-result":            {"/runs/" + id + "/result", nil},
		"runs-cancel":            {"/runs/" + id + "/cancel", nil},
		"runs-retry":             {"/runs/" + id + "/retry", nil},
		"runs-retry-from-failed": {"/runs/" + id + "/retry-from-failed", nil},
	} {
		w.CheckAccess(t, op, at.path, at.body)
	}
	require.Len(t, w.API.Operations(), 10+len(w.others()))
	developer := w.User(t, w.A, tenant.Developer)
	made := w.Do(t, developer, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"}).Require(t, 200).String(t, "run_id")
	w.Do(t, developer, "POST", "/runs/"+made+"/cancel", nil).Require(t, 403)
	assert.Contains(t, *w.get(t, made).TriggeredBy, "developer@")
}

func TestRunsOfOtherWorkspaceAreNotFound(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	id := w.finish(t, "etl", nil).RunID
	token := w.Do(t, w.A.Key, "GET", "/runs/"+id+"/logs?limit=1", nil).Require(t, 200).String(t, "next_token")
	stranger := w.Do(t, w.B.Key, "POST", "/flows", object{"flow_name": "mine", "flow_version": "1", "flow_spec": chain}).Require(t, 200)
	require.NotNil(t, stranger)
	own := w.Do(t, w.B.Key, "POST", "/runs", object{"flow_name": "mine", "flow_version": "1", "execute": true}).Require(t, 200).String(t, "run_id")
	before := w.AuditCount(t, w.B.OrgID)
	for _, c := range [][2]string{
		{"GET", "/runs/" + id}, {"GET", "/runs/" + id + "/logs"}, {"POST", "/runs/" + id + "/cancel"},
		{"POST", "/runs/" + id + "/retry"}, {"POST", "/runs/" + id + "/retry-from-failed"},
		{"GET", "/runs/compare?run_a=" + id + "&run_b=" + own}, {"GET", "/runs/compare?run_a=" + own + "&run_b=" + id},
	} {
		res := w.Do(t, w.B.Key, c[0], c[1], nil).Require(t, 404)
		assert.Equal(t, "Run not found: "+id, res.String(t, "detail"))
	}
	w.Do(t, w.B.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"}).Require(t, 404)
	w.Do(t, w.B.Key, "GET", "/runs/"+own+"/logs?next_token="+token, nil).Require(t, 400)
	assert.Equal(t, before, w.AuditCount(t, w.B.OrgID))
	list := w.Do(t, w.B.Key, "GET", "/runs", nil).Require(t, 200)
	require.Len(t, list.Items(t), 1)
	assert.Equal(t, own, list.String(t, "items", 0, "run_id"))
}
