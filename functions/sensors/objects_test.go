package sensors_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/sensors"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// watch creates a sensor of a bucket in a workspace and returns its id.
func (w *world) watch(of localtest.Workspace, config, fields object) string {
	w.t.Helper()
	body := object{"name": "landed", "sensor_type": "objstore", "flow_name": "daily", "config_json": config}
	for name, value := range fields {
		body[name] = value
	}
	return w.Do(w.t, of.Key, "POST", "/sensors", body).Require(w.t, 201).String(w.t, "sensor_id")
}

// stored is the event of an object that was stored.
func stored(bucket, key, sequencer string) events.Object {
	return events.Object{Event: "ObjectCreated:Put", Time: time.Date(2027, 3, 4, 5, 6, 7, 0, time.UTC), Bucket: bucket, Key: key, ETag: "e", Sequencer: sequencer}
}

// deliver delivers bodies of messages to the function, and returns the numbers
// of those to be delivered again.
func (w *world) deliver(bodies ...string) (failed []string) {
	w.t.Helper()
	return w.deliverTo(w.Deps, bodies...)
}

func (w *world) deliverTo(deps fn.Deps, bodies ...string) (failed []string) {
	w.t.Helper()
	var messages lambda.SQSEvent
	for i, body := range bodies {
		messages.Records = append(messages.Records, lambda.SQSMessage{
			MessageId: fmt.Sprint(i), Body: body, EventSourceARN: "arn:aws:sqs:eu-west-1:1:" + events.ObjectQueue,
			Attributes: map[string]string{"ApproximateReceiveCount": "2"},
		})
	}
	out, err := sensors.ObjectsSpec.Messages(deps)(w.t.Context(), messages)
	require.NoError(w.t, err)
	for _, f := range out.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	return failed
}

func (w *world) deliverObject(o events.Object) []string {
	w.t.Helper()
	return w.deliver(string(events.WriteObject("eu-west-1", o)))
}

// started returns the ids of the runs of a sensor, in a workspace.
func (w *world) started(of localtest.Workspace, id string) (out []string) {
	w.t.Helper()
	for _, item := range w.Do(w.t, of.Key, "GET", "/runs?limit=1000&triggered_by=sensor:"+id, nil).Require(w.t, 200).Items(w.t) {
		out = append(out, item.(object)["run_id"].(string))
	}
	return out
}

func TestObjectsStartRuns(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	all := w.watch(w.A, object{"bucket": "landing"}, nil)
	csv := w.watch(w.A, object{"bucket": "landing", "prefix": "in/", "suffix": ".csv"}, object{"flow_params_json": object{"day": "monday", "objstore_key": "mine"}})
	w.watch(w.A, object{"bucket": "landing-2"}, nil)
	w.watch(w.A, object{"bucket": "landin"}, nil)
	for _, c := range []struct {
		object   events.Object
		all, csv int // runs afterwards
	}{
		{stored("landing", "in/März 1+1.csv", "01"), 1, 0},
		{stored("landing", "in/a.csv.gz", "02"), 2, 0},
		{stored("landing", "In/a.csv", "03"), 3, 0},
		{stored("landing", "out/in/a.csv", "04"), 4, 0},
		{stored("elsewhere", "in/a.csv", "05"), 4, 0},
		{events.Object{Event: "ObjectRemoved:Delete", Bucket: "landing", Key: "in/a.csv", Sequencer: "06"}, 4, 0},
		{events.Object{Event: "ObjectTagging:Put", Bucket: "landing", Key: "in/a.csv", Sequencer: "07"}, 4, 0},
		{events.Object{Event: "ObjectCreated:CompleteMultipartUpload", Bucket: "landing", Key: "in/.csv", Sequencer: "08"}, 5, 0},
	} {
		assert.Empty(t, w.deliverObject(c.object))
		assert.Len(t, w.started(w.A, all), c.all, c.object.Key)
		assert.Empty(t, w.started(w.A, csv), "its parameter objstore_key is the caller's, which the flow does not know")
	}
	failed := w.get(csv).Require(t, 200)
	assert.Contains(t, failed.String(t, "last_error"), "objstore_key")
	assert.NotNil(t, failed.Get(t, "last_error_at"))

	var keys []any
	for _, id := range w.started(w.A, all) {
		detail := w.Do(t, w.A.Key, "GET", "/runs/"+id, nil).Require(t, 200)
		assert.Equal(t, "sensor", detail.String(t, "trigger_source"))
		assert.Equal(t, "landing", detail.Get(t, "parameters", "objstore_bucket"))
		keys = append(keys, detail.Get(t, "parameters", "objstore_key"))
	}
	assert.ElementsMatch(t, []any{"in/März 1+1.csv", "in/a.csv.gz", "In/a.csv", "out/in/a.csv", "in/.csv"}, keys)
}

// TestMonthlyQuotaMakesNoRunOfAnObject, and tells so: its message cannot wait
// until the next month.
func TestMonthlyQuotaMakesNoRunOfAnObject(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"runs-per-month=1"}})
	id := w.watch(w.A, object{"bucket": "landing"}, nil)
	for i := range 3 {
		assert.Empty(t, w.deliverObject(stored("landing", "a", fmt.Sprintf("%02d", i))), "no message is delivered again")
	}
	assert.Len(t, w.started(w.A, id), 1)
	assert.Contains(t, w.get(id).String(t, "last_error"), "runs-per-month")
}

// TestOwnParametersWin over those of the object.
func TestOwnParametersWin(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Do(t, w.A.Key, "POST", "/flows", object{"flow_name": "open", "flow_version": "1", "flow_spec": object{
		"tasks": []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(t, 200)
	id := w.watch(w.A, object{"bucket": "landing"}, object{"flow_name": "open", "flow_params_json": object{"objstore_key": "mine", "x": 1}})
	w.deliverObject(stored("landing", "a", "01"))
	detail := w.Do(t, w.A.Key, "GET", "/runs/"+w.started(w.A, id)[0], nil).Require(t, 200)
	want := object{"objstore_bucket": "landing", "objstore_key": "mine", "x": detail.Get(t, "parameters", "x")}
	assert.Equal(t, want, detail.Get(t, "parameters"))
}

// TestEventStartsOneRun however often it is delivered, also at once; the same
// object stored again is another event.
func TestEventStartsOneRun(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	one, two := w.watch(w.A, object{"bucket": "landing"}, nil), w.watch(w.A, object{"bucket": "landing"}, nil)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { w.deliverObject(stored("landing", "a", "01")) })
	}
	wg.Wait()
	w.deliverObject(stored("landing", "a", "01"))
	require.Len(t, w.started(w.A, one), 1)
	require.Len(t, w.started(w.A, two), 1)

	versioned, plain := stored("landing", "a", ""), stored("landing", "a", "")
	versioned.VersionID = "v1"
	changed, later := plain, plain
	changed.ETag, later.Time = "f", later.Time.Add(time.Second)
	for i, o := range []events.Object{stored("landing", "a", "02"), stored("landing", "a#01", "02"), versioned, plain, changed, later} {
		for range 2 {
			assert.Empty(t, w.deliverObject(o))
			assert.Len(t, w.started(w.A, one), i+2)
		}
	}
}

// TestBadSensorsAndMessages do not keep others from starting.
func TestBadSensorsAndMessages(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	missing := w.watch(w.A, object{"bucket": "landing"}, object{"flow_name": "missing"})
	wrong := w.watch(w.A, object{"bucket": "landing"}, object{"flow_params_json": object{"n": "two"}})
	gone, disabled := w.watch(w.A, object{"bucket": "landing"}, nil), w.watch(w.A, object{"bucket": "landing"}, nil)
	good := w.watch(w.A, object{"bucket": "landing"}, nil)
	require.NoError(t, w.Deps.Table.Delete(t.Context(), table.Delete{Key: table.Key{PK: w.A.OrgID + "#sensors", SK: gone}}))
	_, err := w.Deps.Table.Update(t.Context(), table.Update{Key: table.Key{PK: w.A.OrgID + "#sensors", SK: disabled}, Do: []table.Action{table.Set("enabled", false)}})
	require.NoError(t, err)
	message := func(o events.Object) string { return string(events.WriteObject("local", o)) }
	failed := w.deliver("no JSON", message(stored("landing", "a", "01")), `{"Event": "s3:TestEvent"}`, "{}", message(stored("landing", "b", "02")))
	assert.Equal(t, []string{"0", "3"}, failed, "what is no event")
	assert.Len(t, w.started(w.A, good), 2)
	assert.Empty(t, w.started(w.A, disabled))
	assert.Equal(t, "Flow 'missing' is not registered", w.get(missing).String(t, "last_error"))
	assert.Contains(t, w.get(wrong).String(t, "last_error"), "parameters.n: ")
	assert.Nil(t, w.get(good).Get(t, "last_error"))

	w.Do(t, w.A.Key, "DELETE", "/sensors/"+good, nil).Require(t, 200)
	assert.Empty(t, w.deliverObject(stored("landing", "c", "03")))
	assert.Len(t, w.started(w.A, good), 2)
}

// TestFailuresAreDeliveredAgain: a run that cannot be started now is started by
// a later delivery, and those of other sensors are not started twice.
func TestFailuresAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	broken := &brokenTable{}
	w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		broken.Table = inner
		return broken
	}})
	id := w.watch(w.A, object{"bucket": "landing"}, nil)
	broken.fails.Store(true)
	assert.Equal(t, []string{"0"}, w.deliverObject(stored("landing", "a", "01")))
	broken.fails.Store(false)
	assert.Empty(t, w.deliverObject(stored("landing", "a", "01")))
	require.Len(t, w.started(w.A, id), 1)
}

// TestLimitedWorkspace: the event of a workspace that has as many runs as it may
// is delivered again, and its sensor tells why.
func TestLimitedWorkspace(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Limits: []string{"unfinished-runs=1"}})
	id := w.watch(w.A, object{"bucket": "landing"}, nil)
	assert.Empty(t, w.deliverObject(stored("landing", "a", "01")))
	assert.Equal(t, []string{"0"}, w.deliverObject(stored("landing", "b", "02")))
	assert.Contains(t, w.get(id).String(t, "last_error"), "unfinished-runs")
	assert.Len(t, w.started(w.A, id), 1)
}

// TestWorkspacesWatchOnTheirOwn: each has the runs of its own sensors, and no
// sensor watches the service's own bucket, which has the objects of all.
func TestWorkspacesWatchOnTheirOwn(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{Config: fn.Config{Bucket: "artifacts"}})
	id := w.watch(w.A, object{"bucket": "landing"}, nil)
	other := w.watch(w.B, object{"bucket": "landing"}, nil) // of a flow that B does not have
	w.deliverObject(stored("landing", "a", "01"))
	assert.Len(t, w.started(w.A, id), 1)
	assert.Empty(t, w.Do(t, w.B.Key, "GET", "/runs", nil).Require(t, 200).Items(t))
	assert.Contains(t, w.Do(t, w.B.Key, "GET", "/sensors/"+other, nil).String(t, "last_error"), "not registered")

	own := w.create("objstore", object{"bucket": "artifacts"}, nil).Require(t, 422)
	assert.Equal(t, []any{"body", "config_json", "bucket"}, own.Get(t, "detail", 0, "loc"))
	deps := w.Deps
	deps.Config.Bucket = "landing"
	assert.Empty(t, w.deliverTo(deps, string(events.WriteObject("local", stored("landing", "b", "02")))))
	assert.Len(t, w.started(w.A, id), 1)
}

// TestManySensorsOfABucket starts all their runs, while one is found for each.
func TestManySensorsOfABucket(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	const many = 60
	for i := range many {
		w.watch(w.A, object{"bucket": "landing", "prefix": strings.Repeat("a", i%3)}, nil)
	}
	assert.Empty(t, w.deliverObject(stored("landing", "aab", "01")))
	assert.Equal(t, many, w.count())
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.Do(t, w.A.Key, "POST", "/flows", object{"flow_name": "needy", "flow_version": "3", "flow_spec": object{
		"parameters": object{"type": "object", "properties": object{"day": object{"type": "string"}}, "required": []string{"day"}},
		"tasks":      []object{{"name": "one", "type": "transform", "config": object{"expression": "1"}}},
	}}).Require(t, 200)
	for name, c := range map[string]struct {
		sensorType string
		config     object
		fields     object
		version    any
		would      bool
		reason     string // "": null
		parameters object
	}{
		"webhook":                {"webhook", nil, object{"flow_params_json": object{"day": "monday"}}, "1", true, "", object{"day": "monday"}},
		"incomplete webhook":     {"webhook", nil, object{"flow_name": "needy"}, "3", true, "missing parameters: parameters.day: ", object{}},
		"wrong webhook":          {"webhook", nil, object{"flow_params_json": object{"day": 1}}, "1", false, "parameters.day: ", object{"day": json.Number("1")}},
		"unregistered":           {"webhook", nil, object{"flow_name": "later"}, nil, false, "Flow 'later' is not registered", object{}},
		"bucket":                 {"objstore", object{"bucket": "b"}, nil, "1", true, "", object{"objstore_bucket": "b", "objstore_key": "example"}},
		"bucket with own values": {"objstore", object{"bucket": "b", "prefix": "in/", "suffix": ".csv"}, object{"flow_params_json": object{"day": "monday"}}, "1", true, "", object{"objstore_bucket": "b", "objstore_key": "in/example.csv", "day": "monday"}},
		"incomplete bucket":      {"objstore", object{"bucket": "b"}, object{"flow_name": "needy"}, "3", false, "parameters.day: ", object{"objstore_bucket": "b", "objstore_key": "example"}},
	} {
		made := w.create(c.sensorType, c.config, c.fields).Require(t, 201)
		id := made.String(t, "sensor_id")
		var got map[string]any
		w.Do(t, w.A.Key, "POST", "/sensors/"+id+"/test", nil).Require(t, 200).Into(t, &got)
		reason, _ := got["reason"].(string)
		assert.Contains(t, reason, c.reason, name)
		assert.Equal(t, c.reason == "", got["reason"] == nil, "%s: %s", name, reason)
		delete(got, "reason")
		assert.Equal(t, object{
			"status": "ok", "dry_run": true, "sensor_id": id, "flow_name": made.String(t, "flow_name"), "flow_version": c.version,
			"would_trigger": c.would, "parameters": c.parameters,
		}, got, name)
		if c.sensorType == "webhook" {
			_, err := w.Deps.Table.Update(t.Context(), table.Update{Key: table.Key{PK: w.A.OrgID + "#sensors", SK: id}, Do: []table.Action{table.Set("enabled", false)}})
			require.NoError(t, err)
			off := w.Do(t, w.A.Key, "POST", "/sensors/"+id+"/test", nil).Require(t, 200)
			assert.Equal(t, []any{false, "the sensor is disabled"}, []any{off.Get(t, "would_trigger"), off.Get(t, "reason")})
		}
	}
	assert.Zero(t, w.count())
	w.CheckAccess(t, "sensors-test", "/sensors/"+w.watch(w.A, object{"bucket": "b"}, nil)+"/test", nil)
	w.Do(t, w.A.Key, "POST", "/sensors/sen_none/test", nil).Require(t, 404)
}
