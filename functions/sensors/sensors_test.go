package sensors_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/functions/runs"
	"millrace/functions/sensors"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
)

type object = map[string]any

// world is the service with the operations around sensors, and the flow daily.
type world struct {
	*localtest.Env
	t *testing.T
}

func open(t *testing.T, o localtest.Options) *world {
	t.Helper()
	w := &world{localtest.Open(t, o, append(sensors.Specs, flows.Spec, runs.Spec)...), t}
	w.flow("daily", "1")
	return w
}

func (w *world) flow(name, version string) {
	w.t.Helper()
	w.Do(w.t, w.A.Key, "POST", "/flows", object{"flow_name": name, "flow_version": version, "flow_spec": object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string"}, "n": object{"type": "integer"}}, "additionalProperties": false},
		"tasks":      []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(w.t, 200)
}

// create creates a sensor of the flow daily.
func (w *world) create(sensorType string, config any, fields object) *localtest.Response {
	w.t.Helper()
	body := object{"name": "orders", "sensor_type": sensorType, "flow_name": "daily", "config_json": config}
	for name, value := range fields {
		body[name] = value
	}
	return w.Do(w.t, w.A.Key, "POST", "/sensors", body)
}

func (w *world) get(id string) *localtest.Response {
	w.t.Helper()
	return w.Do(w.t, w.A.Key, "GET", "/sensors/"+id, nil)
}

func TestAccess(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create("webhook", nil, nil).Require(t, 201).String(t, "sensor_id")
	w.CheckAccess(t, "sensors-create", "/sensors", object{"name": "a", "sensor_type": "webhook", "flow_name": "daily"})
	w.CheckAccess(t, "sensors-list", "/sensors", nil)
	w.CheckAccess(t, "sensors-get", "/sensors/"+id, nil)
	w.CheckAccess(t, "sensors-delete", "/sensors/"+id, nil)
	w.Do(t, w.B.Key, "GET", "/sensors/"+id, nil).Require(t, 404)
	w.Do(t, w.B.Key, "DELETE", "/sensors/"+id, nil).Require(t, 404)
	assert.Empty(t, w.Do(t, w.B.Key, "GET", "/sensors", nil).Require(t, 200).Items(t))
	w.Do(t, w.User(t, w.A, tenant.Developer), "GET", "/sensors/"+id, nil).Require(t, 200)
}

// TestSensorLifecycle creates, lists, gets and deletes a sensor of each type.
func TestSensorLifecycle(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Clock.Advance(time.Minute) // entries of one millisecond are not ordered
	before := w.AuditCount(t, w.A.OrgID)
	for sensorType, config := range map[string]object{
		"webhook":  {"hmac_secret": strings.Repeat("s3cret", 4), "event_id_header": "X-Event-Id", "webhook_rpm": json.Number("5"), "cooldown_seconds": json.Number("0")},
		"polling":  {"url": "https://user:pa55@example.com/status?key=s3cret", "interval_seconds": json.Number("30"), "json_path": "a.0", "expected_value": nil, "headers": object{"X-Key": "s3cret"}},
		"objstore": {"bucket": "landing", "prefix": "in/", "suffix": ".csv"},
	} {
		made := w.create(sensorType, config, object{"flow_params_json": object{"day": "monday"}}).Require(t, 201)
		id, now, actor := made.String(t, "sensor_id"), made.String(t, "created_at"), made.String(t, "created_by")
		want := object{
			"sensor_id": id, "name": "orders", "sensor_type": sensorType, "flow_name": "daily", "flow_params_json": object{"day": "monday"},
			"config_json": config, "enabled": true, "last_error": nil, "last_error_at": nil,
			"created_at": now, "created_by": actor, "updated_at": now, "updated_by": actor,
		}
		if sensorType == "polling" {
			config["headers"] = object{"X-Key": "***"}
			want["next_poll_at"] = made.String(t, "next_poll_at") // read from the clock before created_at
		}
		if sensorType == "webhook" {
			token := made.String(t, "webhook_token")
			assert.GreaterOrEqual(t, len(token), 4+43, "256 random bits")
			want["webhook_token"] = token
			config["hmac_secret"] = "***"
		}
		assert.Equal(t, want, made.Object(t))
		assert.Equal(t, want, w.get(id).Require(t, 200).Object(t))
		delete(want, "webhook_token")
		assert.Equal(t, []any{want}, w.Do(t, w.A.Key, "GET", "/sensors", nil).Require(t, 200).Items(t), "lists have no tokens")

		used := w.Do(t, w.A.Key, "DELETE", "/flows/daily", nil).Require(t, 409)
		assert.Contains(t, used.String(t, "detail"), "sensor '"+id+"'")
		gone := w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
		assert.Equal(t, object{"deleted": true}, gone.Object(t))
		w.get(id).Require(t, 404)
		w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 404)
	}
	entries := w.Audit(t, w.A.OrgID)[before:]
	require.Len(t, entries, 6)
	for _, entry := range entries {
		assert.Equal(t, "sensor", entry.ResourceType)
		data, err := json.Marshal(entry)
		require.NoError(t, err)
		for _, secret := range []string{"s3cret", "pa55", "whk_", "token_hash", "sealed"} {
			assert.NotContains(t, string(data), secret)
		}
	}
	w.Do(t, w.A.Key, "DELETE", "/flows/daily", nil).Require(t, 200)
}

// TestSensorOfUnregisteredFlow keeps a flow from being deleted that was
// registered after its sensor.
func TestSensorOfUnregisteredFlow(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	id := w.create("webhook", nil, object{"flow_name": "later"}).Require(t, 201).String(t, "sensor_id")
	w.flow("later", "1")
	w.Do(t, w.A.Key, "DELETE", "/flows/later", nil).Require(t, 409)
	w.Do(t, w.A.Key, "DELETE", "/sensors/"+id, nil).Require(t, 200)
	w.Do(t, w.A.Key, "DELETE", "/flows/later", nil).Require(t, 200)
}

func TestInvalidSensors(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	before := w.AuditCount(t, w.A.OrgID)
	many := object{}
	for i := range 51 {
		many["X-"+strings.Repeat("a", i)] = "v"
	}
	for name, c := range map[string]struct {
		sensorType string
		config     any
		fields     object
		at         string // place of the fault
	}{
		"unknown type":             {"carrier-pigeon", object{}, nil, "sensor_type"},
		"no name":                  {"webhook", nil, object{"name": ""}, "name"},
		"blank name":               {"webhook", nil, object{"name": " "}, "name"},
		"name of two lines":        {"webhook", nil, object{"name": "a\nb"}, "name"},
		"invalid flow":             {"webhook", nil, object{"flow_name": "a/b"}, "flow_name"},
		"extra field":              {"webhook", nil, object{"enabled": false}, "enabled"},
		"reserved parameter":       {"webhook", nil, object{"flow_params_json": object{"__svc_x": 1}}, "flow_params_json.__svc_x"},
		"parameters of a list":     {"webhook", nil, object{"flow_params_json": []int{1}}, "flow_params_json"},
		"config of text":           {"webhook", "{}", nil, "config_json"},
		"unknown config":           {"webhook", object{"hmac": "x"}, nil, "config_json.hmac"},
		"config of another type":   {"webhook", object{"bucket": "b"}, nil, "config_json.bucket"},
		"short secret":             {"webhook", object{"hmac_secret": "s3cret"}, nil, "config_json.hmac_secret"},
		"header without secret":    {"webhook", object{"hmac_header": "X-S"}, nil, "config_json.hmac_secret"},
		"no header's name":         {"webhook", object{"event_id_header": "X S"}, nil, "config_json.event_id_header"},
		"two ids":                  {"webhook", object{"event_id_header": "X-S", "event_id_field": "id"}, nil, "config_json.event_id_field"},
		"no url":                   {"polling", nil, nil, "config_json.url"},
		"relative url":             {"polling", object{"url": "/status"}, nil, "config_json.url"},
		"url of a file":            {"polling", object{"url": "file:///etc/passwd"}, nil, "config_json.url"},
		"short interval":           {"polling", object{"url": "https://a.b", "interval_seconds": 29}, nil, "config_json.interval_seconds"},
		"interval in text":         {"polling", object{"url": "https://a.b", "interval_seconds": "60"}, nil, "config_json.interval_seconds"},
		"status":                   {"polling", object{"url": "https://a.b", "expected_status": 99}, nil, "config_json.expected_status"},
		"path":                     {"polling", object{"url": "https://a.b", "json_path": "a..b"}, nil, "config_json.json_path"},
		"header":                   {"polling", object{"url": "https://a.b", "headers": object{"X-A": "a\r\nX-B: b"}}, nil, "config_json.headers.X-A"},
		"secret in a header":       {"polling", object{"url": "https://a.b", "headers": object{"X-A": "Bearer ${{ secrets.a }}"}}, nil, "config_json.headers.X-A"},
		"secret in a url":          {"polling", object{"url": "https://a.b/${{ secrets.a }}"}, nil, "config_json.url"},
		"large value":              {"polling", object{"url": "https://a.b", "expected_value": strings.Repeat("x", 32<<10)}, nil, "config_json.expected_value"},
		"many headers":             {"polling", object{"url": "https://a.b", "headers": many}, nil, "config_json.headers"},
		"no bucket":                {"objstore", object{"prefix": "a"}, nil, "config_json.bucket"},
		"empty bucket":             {"objstore", object{"bucket": ""}, nil, "config_json.bucket"},
		"prefix that is a number":  {"objstore", object{"bucket": "b", "prefix": 1}, nil, "config_json.prefix"},
		"bucket of a polling type": {"polling", object{"url": "https://a.b", "bucket": "b"}, nil, "config_json.bucket"},
	} {
		res := w.create(c.sensorType, c.config, c.fields)
		if !assert.Equal(t, 422, res.Code, "%s: %s", name, res.Body) {
			continue
		}
		var at []string
		for _, step := range res.Get(t, "detail", 0, "loc").([]any)[1:] {
			at = append(at, step.(string))
		}
		assert.Equal(t, c.at, strings.Join(at, "."), name)
		assert.NotContains(t, string(res.Body), "s3cret", name)
	}
	w.Do(t, w.A.Key, "GET", "/sensors?limit=0", nil).Require(t, 422)
	w.Do(t, w.A.Key, "GET", "/sensors?colour=red", nil).Require(t, 422)
	w.Do(t, w.A.Key, "GET", "/sensors/a%20b", nil).Require(t, 422)
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
	assert.Empty(t, w.Do(t, w.A.Key, "GET", "/sensors", nil).Items(t))
}
