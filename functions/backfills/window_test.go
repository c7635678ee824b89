package backfills_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
)

// cron are the fields of a schedule by an expression.
func cron(expression, zone string) object {
	return object{"mode": "cron", "cron_expression": expression, "timezone": zone}
}

// occurrences returns the times of a dry run.
func (w *world) occurrences(flow string, body object) (at []string) {
	w.t.Helper()
	body["dry_run"] = true
	var v view
	w.Do(w.t, w.A.Key, "POST", "/flows/"+flow+"/backfill", body).Require(w.t, 200).Into(w.t, &v)
	for _, one := range v.Intervals {
		assert.Equal(w.t, one.LogicalAt, time.Unix(one.Epoch, 0).UTC().Format("2006-01-02T15:04:05.000Z"))
		at = append(at, strings.TrimSuffix(one.LogicalAt, ":00.000Z"))
	}
	return at
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	for _, c := range []struct {
		name string
		body object
		want []string
	}{
		{"both ends belong to it", object{"from": "2026-03-01T00:00:00Z", "to": "2026-03-01T02:00:00Z", "interval_seconds": 3600},
			[]string{"2026-03-01T00:00", "2026-03-01T01:00", "2026-03-01T02:00"}},
		{"one second before an occurrence", object{"from": "2026-03-01T00:00:01Z", "to": "2026-03-01T01:59:59Z", "cron_expression": "@hourly"},
			[]string{"2026-03-01T01:00"}},
		{"offsets", object{"from": "2026-03-01T02:00:00+02:00", "to": "2026-02-28T20:00:00-05:00", "interval_seconds": 3600},
			[]string{"2026-03-01T00:00", "2026-03-01T01:00"}},
		{"dates are whole days", object{"from": "2026-03-01", "to": "2026-03-02", "cron_expression": "30 6,23 * * *"},
			[]string{"2026-03-01T06:30", "2026-03-01T23:30", "2026-03-02T06:30", "2026-03-02T23:30"}},
		{"one day", object{"from": "2026-03-01", "to": "2026-03-01", "interval_seconds": 86400}, []string{"2026-03-01T00:00"}},
		{"no offset is UTC", object{"from": "2026-03-01T06:30", "to": "2026-03-01 06:30:59", "cron_expression": "* * * * *"}, []string{"2026-03-01T06:30"}},
		{"parts of seconds", object{"from": "2026-03-01T05:59:59.5Z", "to": "2026-03-01T06:00:00.9Z", "interval_seconds": 60}, []string{"2026-03-01T06:00"}},
		{"intervals count from its beginning", object{"from": "2026-03-01T00:10:00Z", "to": "2026-03-01T02:00:00Z", "interval_seconds": 3600},
			[]string{"2026-03-01T00:10", "2026-03-01T01:10"}},
		{"the leap day", object{"from": "2020-01-01", "to": "2030-01-01", "cron_expression": "0 0 29 2 *"}, []string{"2020-02-29T00:00", "2024-02-29T00:00", "2028-02-29T00:00"}},
		{"before 1970", object{"from": "1969-12-31T23:00:00Z", "to": "1970-01-01T01:00:00Z", "interval_seconds": 3600},
			[]string{"1969-12-31T23:00", "1970-01-01T00:00", "1970-01-01T01:00"}},
	} {
		assert.Equal(t, c.want, w.occurrences("daily", c.body), c.name)
	}
	assert.Len(t, w.occurrences("daily", hourly(10_000, 1)), 10_000)
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	before := w.AuditCount(t, w.A.OrgID)
	for _, c := range []struct {
		change object
		detail string
	}{
		{object{"from": nil}, "from"},
		{object{"to": nil}, "to"},
		{object{"from": "yesterday"}, "timestamp"},
		{object{"from": "", "to": "2026-13-01"}, "timestamp"},
		{object{"to": "2026-02-28"}, "to is before from"},
		{object{"cron_expression": "@daily"}, "either"},
		{object{"interval_seconds": nil}, "has no schedule"},
		{object{"interval_seconds": 0}, "interval_seconds"},
		{object{"interval_seconds": nil, "cron_expression": "0 0 30 2 *"}, "no day"},
		{object{"interval_seconds": nil, "cron_expression": "@every 5m"}, "@every"},
		{object{"interval_seconds": nil, "cron_expression": "0 0 1 1 *"}, "no occurrence"},
		{object{"to": "2027-05-01T00:00:00Z"}, "10,000"},
		{object{"from": "1900-01-01", "interval_seconds": 1}, "10,000"},
		{object{"from": "0001-01-01"}, "before the year 1900"},
		{object{"max_concurrency": 0}, "max_concurrency"},
		{object{"max_concurrency": 101}, "max_concurrency"},
		{object{"environment": "absent"}, "absent"},
		{object{"parameters": object{"day": 1}}, "day"},
		{object{"parameters": object{"unknown": 1}}, "unknown"},
		{object{"parameters": object{"__svc_x": 1}}, "reserved"},
		{object{"version": "1"}, "version"},
	} {
		for _, dry := range []bool{false, true} {
			body := hourly(3, 1)
			body["dry_run"] = dry
			for name, value := range c.change {
				if body[name] = value; value == nil {
					delete(body, name)
				}
			}
			res := w.ask(body)
			assert.Equal(t, 422, res.Code, "%v: %s", c.change, res.Body)
			assert.Contains(t, string(res.Body), c.detail, "%v", c.change)
		}
	}
	w.Do(t, w.A.Key, "POST", "/flows/absent/backfill", hourly(3, 1)).Require(t, 404)
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))
	assert.Empty(t, w.Do(t, w.A.Key, "GET", "/backfills", nil).Require(t, 200).Items(t))

	body := hourly(10_001, 1)
	assert.Contains(t, string(w.ask(body).Require(t, 422).Body), "10,000")
}

// TestStoredSchedule: what a backfill takes from the schedules of its flow.
func TestStoredSchedule(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.flow("daily", "2")
	march := func() object { return object{"from": "2026-03-28", "to": "2026-03-29"} }
	fields := cron("30 6 * * *", "Europe/Berlin")
	fields["flow_version"], fields["parameters"], fields["execution_mode"] = "2", object{"day": "of schedule", "ds": "x"}, "small"
	w.schedule("nightly", fields)
	assert.Equal(t, []string{"2026-03-28T05:30", "2026-03-29T04:30"}, w.occurrences("daily", march()), "in its zone, as the clock shows it")
	body := march()
	body["parameters"] = object{"day": "mine"}
	made := w.ask(body).Require(t, 200)
	assert.Equal(t, []any{"2", "small", "cron", object{"day": "mine", "ds": "x"}},
		[]any{made.Get(t, "flow_version"), made.Get(t, "execution_mode"), made.Get(t, "mode"), made.Get(t, "parameters")})
	assert.Equal(t, "1774652400", fmt.Sprint(made.Get(t, "from_epoch")), "the day begins in Berlin")

	body = march()
	body["interval_seconds"] = 86400
	made = w.ask(body).Require(t, 200)
	assert.Equal(t, []any{"2", "interval", "2026-03-28T00:00:00.000Z"}, []any{made.Get(t, "flow_version"), made.Get(t, "mode"), made.Get(t, "intervals", 0, "logical_at")})

	w.schedule("weekly", object{"mode": "interval", "interval_seconds": 43200, "flow_version": "2"})
	refused := w.ask(march()).Require(t, 422)
	assert.Contains(t, string(refused.Body), "nightly, weekly")
	made = w.ask(body).Require(t, 200)
	assert.Equal(t, []any{"2", nil, object{}}, []any{made.Get(t, "flow_version"), made.Get(t, "execution_mode"), made.Get(t, "parameters")}, "what both have")

	w.schedule("weekly", object{"mode": "interval", "interval_seconds": 43200, "flow_version": "1"})
	refused = w.ask(body).Require(t, 422)
	assert.Contains(t, string(refused.Body), "different versions")

	w.Do(t, w.A.Key, "PATCH", "/schedules/nightly", object{"enabled": false}).Require(t, 200)
	assert.Equal(t, []string{"2026-03-28T00:00", "2026-03-28T12:00"}, w.occurrences("daily", object{"from": "2026-03-28", "to": "2026-03-28"}), "the enabled one")
	w.Do(t, w.A.Key, "PATCH", "/schedules/weekly", object{"enabled": false}).Require(t, 200)
	w.ask(march()).Require(t, 422)
}

// TestDeploymentOfTheSchedule decides when each run starts.
func TestDeploymentOfTheSchedule(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.flow("daily", "2")
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "prod", "flow_name": "daily", "flow_version": "1", "environment": "production"}).Require(t, 200)
	w.schedule("nightly", object{"flow_name": nil, "flow_version": nil, "deployment": "prod", "mode": "interval", "interval_seconds": 3600})
	id := w.create(object{"from": "2026-03-01T00:00:00Z", "to": "2026-03-01T01:00:00Z"})
	w.Do(t, w.A.Key, "PATCH", "/deployments/prod", object{"flow_version": "2"}).Require(t, 200)
	w.end(*w.get(id).Intervals[0].RunID, "SUCCEEDED")
	w.events()
	var versions []string
	for _, one := range w.get(id).Intervals {
		require.NotNil(t, one.RunID)
		run := w.Do(t, w.A.Key, "GET", "/runs/"+*one.RunID, nil).Require(t, 200)
		assert.Equal(t, []string{"prod", "production"}, []string{run.String(t, "deployment"), run.String(t, "environment")})
		versions = append(versions, run.String(t, "flow_version"))
	}
	assert.Equal(t, []string{"1", "2"}, versions)
}

// TestFirstVersion: a flow without a schedule runs its version 1, or the deployment
// of its name, or nothing.
func TestFirstVersion(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.flow("other", "2026.1")
	refused := w.Do(t, w.A.Key, "POST", "/flows/other/backfill", hourly(2, 1)).Require(t, 422)
	assert.Contains(t, string(refused.Body), "neither a version '1' nor a deployment of its name")

	// A deployment of that name is not taken if it is of another flow.
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "other", "flow_name": "daily", "flow_version": "1"}).Require(t, 200)
	refused = w.Do(t, w.A.Key, "POST", "/flows/other/backfill", hourly(2, 1)).Require(t, 422)
	assert.Contains(t, string(refused.Body), "neither a version '1' nor a deployment of its name")
	w.Do(t, w.A.Key, "DELETE", "/deployments/other", nil).Require(t, 200)
	w.Do(t, w.A.Key, "POST", "/deployments", object{"deployment_name": "other", "flow_name": "other", "flow_version": "2026.1"}).Require(t, 200)
	deployed := w.Do(t, w.A.Key, "POST", "/flows/other/backfill", hourly(2, 1)).Require(t, 200)
	assert.Equal(t, "other", deployed.String(t, "deployment"))
	assert.Nil(t, deployed.Get(t, "flow_version"))
	require.Equal(t, 1, w.begin())
	run := w.get(deployed.String(t, "backfill_id")).Intervals[0].RunID
	require.NotNil(t, run)
	assert.Equal(t, "2026.1", w.Do(t, w.A.Key, "GET", "/runs/"+*run, nil).Require(t, 200).String(t, "flow_version"))
	w.schedule("off", object{"flow_name": "other", "flow_version": "2026.1", "mode": "interval", "interval_seconds": 60, "enabled": false})
	made := w.Do(t, w.A.Key, "POST", "/flows/other/backfill", hourly(2, 1)).Require(t, 200)
	assert.Equal(t, "2026.1", made.Get(t, "flow_version"))
}
