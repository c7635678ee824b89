package backfills

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/cron"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
	"millrace/shared/run/schedule"
)

// maxIntervals is the largest number of intervals of a backfill.
const maxIntervals = 10_000

// firstYear is the earliest year of a window.
const firstYear = 1900

// firstVersion is the version that a flow without a schedule runs.
const firstVersion = "1"

// window is the occurrences of a request, and what they run.
type window struct {
	from, to            time.Time // in whole seconds, both included
	at                  []int64   // Unix seconds of the occurrences
	mode                string    // schedule.Cron or schedule.Interval
	version, deployment *string
	environment, tier   *string
	parameters          map[string]json.RawMessage
	unscheduled         bool // the flow has no schedule
}

// cadence is when a backfill's intervals begin.
type cadence struct {
	every time.Duration // 0: by cron
	cron  cron.Schedule
	zone  *time.Location // of what the caller writes without an offset
}

// window returns what a request asks for. Errors: errs.Unprocessable;
// errs.NotFound for an unknown flow.
func (s *service) window(ctx context.Context, flow string, body *BackfillRequest) (window, error) {
	explicit, err := requested(body)
	if err != nil {
		return window{}, err
	}
	var faults []errs.Detail
	for _, edge := range []struct{ name, value string }{{"from", body.From}, {"to", body.To}} {
		if _, _, err := instant(edge.value, time.UTC); err != nil {
			faults = append(faults, errs.Detail{
				Type: "datetime_parsing", Loc: errs.Body(edge.name), Msg: "Input should be an ISO 8601 timestamp or a date", Input: edge.value,
			})
		}
	}
	if len(faults) > 0 {
		return window{}, errs.Validation(faults...)
	}
	if _, err := registry.GetFlow(ctx, s.jobs.Table, tenant.From(ctx).OrgID, flow); err != nil {
		return window{}, err
	}
	stored, err := s.stored(ctx, flow)
	if err != nil {
		return window{}, err
	}
	if explicit == nil {
		if explicit, err = cadenceOf(flow, stored); err != nil {
			return window{}, err
		}
	}
	w, err := target(flow, stored, body.Parameters)
	if err != nil {
		return window{}, err
	}
	w.mode = schedule.Cron
	if explicit.every > 0 {
		w.mode = schedule.Interval
	}
	return w, w.fill(body, explicit)
}

// requested returns the cadence of a request, nil if it has none.
func requested(body *BackfillRequest) (*cadence, error) {
	switch {
	case body.CronExpression != nil && body.IntervalSeconds != nil:
		return nil, errs.Field(errs.Body("interval_seconds"), *body.IntervalSeconds, "either cron_expression or interval_seconds may be given")
	case body.IntervalSeconds != nil:
		return &cadence{every: time.Duration(*body.IntervalSeconds) * time.Second, zone: time.UTC}, nil
	case body.CronExpression != nil:
		parsed, err := cron.Parse(*body.CronExpression, time.UTC)
		if err != nil {
			return nil, errs.Field(errs.Body("cron_expression"), *body.CronExpression, "%s", err)
		}
		return &cadence{cron: parsed, zone: time.UTC}, nil
	}
	return nil, nil
}

// stored returns the schedules of a flow that count: those that are enabled, or
// all if none is.
func (s *service) stored(ctx context.Context, flow string) ([]schedule.Schedule, error) {
	all, err := s.schedules.List(ctx, "", 0, func(found *schedule.Schedule) bool { return found.FlowName == flow })
	var enabled []schedule.Schedule
	for _, one := range all {
		if one.Enabled {
			enabled = append(enabled, one)
		}
	}
	if len(enabled) > 0 {
		return enabled, err
	}
	return all, err
}

// cadenceOf returns the cadence of a flow's stored schedule.
func cadenceOf(flow string, stored []schedule.Schedule) (*cadence, error) {
	if len(stored) == 0 {
		return nil, errs.Field(errs.Body("cron_expression"), nil, "flow '%s' has no schedule: cron_expression or interval_seconds is required", flow)
	}
	if len(stored) > 1 {
		return nil, errs.Field(errs.Body("cron_expression"), nil,
			"flow '%s' has several schedules (%s): cron_expression or interval_seconds is required", flow, names(stored))
	}
	one := &stored[0]
	if one.Mode == schedule.Interval && one.IntervalSeconds != nil {
		return &cadence{every: time.Duration(*one.IntervalSeconds) * time.Second, zone: time.UTC}, nil
	}
	zone, err := cron.Zone(one.Timezone)
	if err != nil {
		return nil, err
	}
	parsed, err := cron.Parse(deref(one.CronExpression), zone)
	return &cadence{cron: parsed, zone: zone}, err
}

func names(stored []schedule.Schedule) string {
	ids := make([]string, len(stored))
	for i := range stored {
		ids[i] = stored[i].ScheduleID
	}
	const shown = 20
	if len(ids) > shown {
		ids = append(ids[:shown], "…")
	}
	return strings.Join(ids, ", ")
}

// target returns what the intervals run: what the stored schedules do, or the
// flow's first version.
func target(flow string, stored []schedule.Schedule, given map[string]json.RawMessage) (window, error) {
	if len(stored) == 0 {
		return window{version: new(firstVersion), parameters: given, unscheduled: true}, nil
	}
	first := &stored[0]
	w := window{version: first.FlowVersion, deployment: first.Deployment, environment: first.Environment, tier: first.ExecutionMode}
	parameters := first.Parameters
	for i := range stored[1:] {
		other := &stored[1+i]
		if deref(other.FlowVersion) != deref(w.version) || deref(other.Deployment) != deref(w.deployment) || deref(other.Environment) != deref(w.environment) {
			return w, errs.Field([]any{"path", "flow_name"}, flow,
				"the schedules of flow '%s' (%s) run different versions, deployments or environments: disable those that the backfill is not of", flow, names(stored))
		}
		if deref(other.ExecutionMode) != deref(w.tier) {
			w.tier = nil
		}
		if len(parameters)+len(other.Parameters) > 0 && !reflect.DeepEqual(other.Parameters, parameters) {
			parameters = nil
		}
	}
	w.parameters = maps.Clone(parameters)
	if w.parameters == nil {
		w.parameters = map[string]json.RawMessage{}
	}
	maps.Copy(w.parameters, given)
	return w, nil
}

// fill sets the window and its occurrences.
func (w *window) fill(body *BackfillRequest, c *cadence) error {
	from, _, err := instant(body.From, c.zone)
	if err != nil {
		return err
	}
	to, wholeDay, err := instant(body.To, c.zone)
	if err != nil {
		return err
	}
	if wholeDay {
		to = to.AddDate(0, 0, 1).Add(-time.Second)
	}
	w.from, w.to = from.Add(time.Second-time.Nanosecond).Truncate(time.Second).UTC(), to.Truncate(time.Second).UTC()
	if w.from.Year() < firstYear {
		return errs.Field(errs.Body("from"), body.From, "from is before the year %d", firstYear)
	}
	if w.to.Before(w.from) {
		return errs.Field(errs.Body("to"), body.To, "to is before from")
	}
	for at := c.first(w.from); !at.IsZero() && !at.After(w.to); at = c.next(at) {
		if len(w.at) == maxIntervals {
			return errs.Field(errs.Body("to"), body.To, "the window has more than 10,000 occurrences")
		}
		w.at = append(w.at, at.Unix())
	}
	if len(w.at) == 0 {
		return errs.Field(errs.Body("to"), body.To, "there is no occurrence from %s to %s", w.from.Format(time.RFC3339), w.to.Format(time.RFC3339))
	}
	return nil
}

// first returns the first occurrence that is not before a time in whole
// seconds, the zero time if there is none.
func (c *cadence) first(from time.Time) time.Time {
	if c.every > 0 {
		return from
	}
	return c.cron.Next(from.Add(-time.Second))
}

// next returns the occurrence after one.
func (c *cadence) next(at time.Time) time.Time {
	if c.every > 0 {
		return at.Add(c.every)
	}
	return c.cron.Next(at)
}

// layouts are the forms of a timestamp without an offset.
var layouts = []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04"}

// instant parses one end of the window, which is in a zone unless it says
// otherwise. It reports whether it is a date, which begins at that time.
func instant(text string, zone *time.Location) (at time.Time, date bool, err error) {
	if at, err = time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		return at, true, nil
	}
	for _, layout := range layouts {
		if at, err = time.ParseInLocation(layout, text, zone); err == nil {
			return at, false, nil
		}
	}
	at, err = time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1))
	return at, false, err
}
