package sensors_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/sensors"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/runstate"
	"millrace/shared/web/httpapi"
)

// hook creates a webhook and returns its id and its path.
func (w *world) hook(config, fields object) (id, path string) {
	w.t.Helper()
	made := w.create("webhook", config, fields).Require(w.t, 201)
	return made.String(w.t, "sensor_id"), "/webhooks/" + made.String(w.t, "webhook_token")
}

// parameters returns those of the run that a request started.
func (w *world) parameters(res *localtest.Response) map[string]any {
	w.t.Helper()
	input, err := runstate.LoadInput(w.t.Context(), w.Deps.Table, w.Deps.Blob, w.A.OrgID, res.Require(w.t, 200).String(w.t, "run_id"))
	require.NoError(w.t, err)
	data, err := json.Marshal(input.Parameters)
	require.NoError(w.t, err)
	var out map[string]any
	require.NoError(w.t, json.Unmarshal(data, &out))
	return out
}

// count returns the number of runs of workspace A.
func (w *world) count() int {
	w.t.Helper()
	return len(w.Do(w.t, w.A.Key, "GET", "/runs?limit=1000", nil).Require(w.t, 200).Items(w.t))
}

func TestWebhookStartsRuns(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id, path := w.hook(nil, nil)
	w.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
	res := w.Do(t, "", "POST", path+"?source=github&source=twice", object{"day": "monday"}).Require(t, 200)
	run := res.String(t, "run_id")
	assert.Equal(t, object{"triggered": true, "sensor_id": id, "flow_name": "daily", "flow_version": "1", "run_id": run}, res.Object(t))
	detail := w.Do(t, w.A.Key, "GET", "/runs/"+run, nil).Require(t, 200)
	for field, want := range map[string]any{
		"trigger_source": "sensor", "triggered_by": "sensor:" + id, "deployment": nil, "environment": "default", "status": "QUEUED",
	} {
		assert.Equal(t, want, detail.Get(t, field), field)
	}
	assert.Len(t, w.Do(t, w.A.Key, "GET", "/runs?trigger_source=sensor&triggered_by=sensor:"+id, nil).Require(t, 200).Items(t), 1)
	entry := w.Audit(t, w.A.OrgID)[len(w.Audit(t, w.A.OrgID))-1]
	assert.Equal(t, []string{"run", "create", run, ""}, []string{entry.ResourceType, entry.Action, entry.ResourceID, entry.ActorEmail})
	assert.JSONEq(t, `{"sensor_id":"`+id+`"}`, entry.Metadata)

	w.flow("daily", "2")
	assert.Equal(t, "2", w.Do(t, "", "POST", path, nil).Require(t, 200).String(t, "flow_version"), "the latest")
	assert.NotEqual(t, run, w.Do(t, "", "POST", path, object{"day": "monday"}).Require(t, 200).String(t, "run_id"), "the same again")
	assert.Empty(t, w.Do(t, w.B.Key, "GET", "/runs", nil).Require(t, 200).Items(t))
}

func TestWebhookParameters(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	_, path := w.hook(nil, object{"flow_params_json": object{"day": "default", "n": 1}})
	for name, c := range map[string]struct {
		body string
		day  any // of the run; nil: refused with 422
		n    float64
	}{
		"none":                          {"", "default", 1},
		"white space":                   {" \r\n", "default", 1},
		"top-level fields":              {`{"day": "monday"}`, "monday", 1},
		"unknown top-level fields":      {`{"n": 2, "sender": {"id": 7}, "__svc_x": 1}`, "default", 2},
		"a parameters object":           {`{"parameters": {"day": "monday"}, "n": 2}`, "monday", 1},
		"an empty parameters object":    {`{"parameters": {}, "n": 2}`, "default", 1},
		"parameters that are no object": {`{"parameters": [1], "n": 2}`, "default", 2},
		"null parameters":               {`{"parameters": null, "n": 2}`, "default", 2},
		"no JSON":                       {`day=monday`, "default", 1},
		"JSON and more":                 {`{"day": "monday"} {}`, "default", 1},
		"half an object":                {`{"day": "monday"`, "default", 1},
		"a list":                        {`[{"day": "monday"}]`, "default", 1},
		"a text":                        {`"day"`, "default", 1},
		"null":                          {`null`, "default", 1},
		"other encodings":               {"{\"day\": \"\xff\"}", "default", 1},
		"a wrong value":                 {`{"n": "two"}`, nil, 0},
		"a wrong parameter":             {`{"parameters": {"n": "two"}}`, nil, 0},
		"an unknown parameter":          {`{"parameters": {"sender": 1}}`, nil, 0},
		"a reserved parameter":          {`{"parameters": {"__svc_x": 1}}`, nil, 0},
		"duplicate keys":                {`{"n": 2, "n": 3}`, nil, 0},
		"deep nesting":                  {`{"sender": ` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`, nil, 0},
		"large parameters":              {`{"parameters": {"day": "` + strings.Repeat("x", 300_000) + `"}}`, nil, 0},
	} {
		for _, contentType := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded"} {
			w.Clock.Advance(time.Minute)
			res := w.Send(t, localtest.Request{Method: "POST", Path: path, Body: c.body, Header: http.Header{"Content-Type": {contentType}}})
			if c.day == nil {
				assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body)
				continue
			}
			if assert.Equal(t, 200, res.Code, "%s: %s", name, res.Body) {
				assert.Equal(t, object{"day": c.day, "n": c.n}, w.parameters(res), name)
			}
		}
	}
	large := w.Send(t, localtest.Request{Method: "POST", Path: path, Body: `{"n": 2, "payload": "` + strings.Repeat("x", 4<<20-40) + `"}`})
	assert.Equal(t, 2.0, w.parameters(large)["n"])
	w.Send(t, localtest.Request{Method: "POST", Path: path, Body: strings.Repeat("x", 4<<20+1)}).Require(t, 413)
}

func TestWebhookRefusals(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id, path := w.hook(nil, nil)
	key := table.Key{PK: w.A.OrgID + "#sensors", SK: id}
	set := func(attr string, value any) {
		_, err := w.Deps.Table.Update(t.Context(), table.Update{Key: key, Do: []table.Action{table.Set(attr, value)}})
		require.NoError(t, err)
	}
	for _, unknown := range []string{"/webhooks/x", "/webhooks/" + id, path + "x", path[:len(path)-1], path[:len(path)-1] + "_", "/webhooks/whk_" + strings.Repeat("a", 43)} {
		w.Do(t, "", "POST", unknown, nil).Require(t, 404)
	}
	set("enabled", false)
	w.Do(t, "", "POST", path, nil).Require(t, 409)
	set("enabled", true)

	suspend := func(now bool) {
		require.NoError(t, identity.SuspendWorkspace(t.Context(), w.Deps.Table, w.Clock.Now(), w.A.OrgID, now))
	}
	suspend(true)
	w.Do(t, "", "POST", path, nil).Require(t, 403)
	suspend(false)

	_, later := w.hook(nil, object{"flow_name": "later"})
	missing := w.Do(t, "", "POST", later, nil).Require(t, 422)
	assert.Equal(t, "Flow 'later' is not registered", missing.String(t, "detail"))
	w.flow("later", "7")
	assert.Equal(t, "7", w.Do(t, "", "POST", later, nil).Require(t, 200).String(t, "flow_version"))

	w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
	w.Do(t, "", "POST", path, nil).Require(t, 404)
	assert.Equal(t, 1, w.count())
}

// TestWebhookBurst sends 200 requests in one instant, through two processes: 60
// start a run, the others are told when to come back. Another token has a count
// of its own, and so has the next minute.
func TestWebhookBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, localtest.Options{})
		w.Clock.Set(time.Date(2027, 3, 4, 5, 6, 42, 0, time.UTC))
		id, path := w.hook(nil, nil)
		_, other := w.hook(nil, nil)
		deps := w.Deps
		deps.Quota = quota.New(quota.Config{Table: deps.Table, Clock: w.Clock, Log: deps.Log})
		second := *w.Env
		second.API = httpapi.New(httpapi.Config{Clock: w.Clock, Log: deps.Log})
		sensors.Spec.Routes(second.API, deps)
		processes := []*localtest.Env{w.Env, &second}
		answers := make([]*localtest.Response, 200)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = processes[i%2].Do(t, "", "POST", path, nil) })
		}
		wg.Wait()
		codes, started := map[int]int{}, map[string]bool{}
		for _, res := range answers {
			codes[res.Code]++
			if res.Code == 200 {
				started[res.String(t, "run_id")] = true
				continue
			}
			assert.Equal(t, "18", res.Header.Get("Retry-After"), "the rest of the minute")
			assert.Contains(t, res.String(t, "detail"), "at most 60 are allowed in a minute for a URL (limit webhook-requests-per-minute)")
		}
		assert.Equal(t, map[int]int{200: 60, 429: 140}, codes)
		assert.Len(t, started, 60)
		assert.Equal(t, 60, w.count())
		w.Do(t, "", "POST", other, nil).Require(t, 200)
		w.Clock.Advance(18 * time.Second)
		for _, p := range processes {
			p.Do(t, "", "POST", path, nil).Require(t, 200)
		}
		w.Clock.Advance(time.Second)
		w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
		for range 100 {
			w.Do(t, "", "POST", path, nil).Require(t, 404)
		}
	})
}

func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	const secret, body = "correct horse battery staple", "{\"day\": \"monday\"}\n"
	sign := func(secret, body string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return hex.EncodeToString(mac.Sum(nil))
	}
	_, usual := w.hook(object{"hmac_secret": secret}, nil)
	_, own := w.hook(object{"hmac_secret": secret, "hmac_header": "X-Signature"}, nil)
	good := sign(secret, body)
	for name, c := range map[string]struct {
		path, header, value string
		code                int
	}{
		"usual":             {usual, "X-Hub-Signature-256", "sha256=" + good, 200},
		"without a prefix":  {usual, "X-Hub-Signature-256", good, 200},
		"upper case":        {usual, "X-Hub-Signature-256", strings.ToUpper(good), 200},
		"own header":        {own, "X-Signature", good, 200},
		"none":              {usual, "X-Other", good, 401},
		"of another header": {own, "X-Hub-Signature-256", good, 401},
		"empty":             {usual, "X-Hub-Signature-256", "", 401},
		"no signature":      {usual, "X-Hub-Signature-256", "zz", 401},
		"half":              {usual, "X-Hub-Signature-256", good[:32], 401},
		"of another secret": {usual, "X-Hub-Signature-256", sign("another secret", body), 401},
		"of another body":   {usual, "X-Hub-Signature-256", sign(secret, strings.TrimSpace(body)), 401},
	} {
		res := w.Send(t, localtest.Request{Method: "POST", Path: c.path, Body: body, Header: http.Header{c.header: {c.value}}})
		assert.Equal(t, c.code, res.Code, "%s: %s", name, res.Body)
		assert.NotContains(t, string(res.Body), "horse")
	}
	assert.Equal(t, 4, w.count())
}

// TestWebhookEvents: an event's id starts one run in 24 hours.
func TestWebhookEvents(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	_, byHeader := w.hook(object{"event_id_header": "X-Event-Id"}, nil)
	_, byField := w.hook(object{"event_id_field": "delivery"}, nil)
	_, another := w.hook(object{"event_id_field": "delivery"}, nil)
	send := func(path, header, body string) *localtest.Response {
		t.Helper()
		w.Clock.Advance(time.Minute)
		return w.Send(t, localtest.Request{Method: "POST", Path: path, Body: body, Header: http.Header{"X-Event-Id": {header}}})
	}
	first := send(byHeader, "e1", "").Require(t, 200)
	assert.Equal(t, first.Object(t), send(byHeader, "e1", `{"day": "monday"}`).Require(t, 200).Object(t), "the first answer")
	w.Clock.Advance(23 * time.Hour)
	assert.Equal(t, first.String(t, "run_id"), send(byHeader, "e1", "").Require(t, 200).String(t, "run_id"))
	w.Clock.Advance(time.Hour)
	seen := map[string]bool{first.String(t, "run_id"): true}
	for _, res := range []*localtest.Response{
		send(byHeader, "e1", ""), send(byHeader, "e2", ""), send(byField, "", `{"delivery": "e1"}`), send(byField, "", `{"delivery": 1}`),
		send(byField, "", `{"delivery": 2, "parameters": {}}`), send(another, "", `{"delivery": 1}`),
	} {
		id := res.Require(t, 200).String(t, "run_id")
		assert.False(t, seen[id])
		seen[id] = true
	}
	assert.True(t, seen[send(byField, "", `{"delivery": 1}`).Require(t, 200).String(t, "run_id")])
	for _, body := range []string{"", "{}", `{"delivery": ""}`, `{"delivery": null}`, `{"delivery": true}`, `{"delivery": {}}`, `{"delivery": "` + strings.Repeat("x", 513) + `"}`} {
		send(byField, "e9", body).Require(t, 422)
	}
	send(byHeader, "", `{"delivery": 1}`).Require(t, 422)
	assert.Equal(t, len(seen), w.count())
}

// TestTokensLeaveNoTrace looks for the token and the signature's secret in all
// that is stored and logged, also by a request that fails.
func TestTokensLeaveNoTrace(t *testing.T) {
	t.Parallel()
	log := &telemetrytest.Log{}
	broken := &brokenTable{}
	w := open(t, localtest.Options{Log: log.Logger(), Wrap: func(inner table.Table) table.Table {
		broken.Table = inner
		return broken
	}})
	const secret = "kanarienvogel-kanarienvogel"
	_, path := w.hook(object{"hmac_secret": secret}, nil)
	_, plain := w.hook(nil, nil)
	w.Do(t, "", "POST", plain, nil).Require(t, 200)
	w.Do(t, "", "POST", path, nil).Require(t, 401)
	w.Do(t, "", "POST", path+"x", nil).Require(t, 404)
	w.Do(t, "", "POST", path+"/", nil).Require(t, 401)
	w.Do(t, "", "PUT", path, nil).Require(t, 405)
	broken.fails.Store(true)
	w.Do(t, "", "POST", plain, nil).Require(t, 500)
	broken.fails.Store(false)

	tokens := []string{strings.TrimPrefix(path, "/webhooks/"), strings.TrimPrefix(plain, "/webhooks/"), secret}
	all := []string{log.String()}
	for key, item := range w.Stored(t) {
		all = append(all, key.PK+" "+key.SK+" "+item)
	}
	traces := w.traces()
	require.NotEmpty(t, traces)
	for _, text := range append(all, traces...) {
		for _, token := range tokens {
			require.NotContains(t, text, token[4:])
		}
	}
	assert.Contains(t, log.String(), "/webhooks/{token}")
}

// TestWebhookLimitIsSettable: an operator may set another limit.
func TestWebhookLimitIsSettable(t *testing.T) {
	t.Parallel()
	w := &world{localtest.Open(t, localtest.Options{Limits: []string{"webhook-requests-per-minute=3"}}, sensors.Spec, flows.Spec, runs.Spec), t}
	w.flow("daily", "1")
	w.Clock.Set(time.Date(2027, 3, 4, 5, 6, 0, 0, time.UTC))
	_, path := w.hook(nil, nil)
	for i := range 5 {
		res := w.Do(t, "", "POST", path, nil)
		assert.Equal(t, map[bool]int{true: 200, false: 429}[i < 3], res.Code, strconv.Itoa(i))
	}
}
