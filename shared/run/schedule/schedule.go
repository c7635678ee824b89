// Package schedule is the schedules of workspaces as they are stored, and when
// they are due.
//
// Stored items, at <org>#schedules:
//
//	<schedule_id>  a schedule, in the due index while it is enabled
package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/kit/cron"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// The modes of a schedule.
const (
	Interval = "interval"
	Cron     = "cron"
)

// The catch-up policies: what becomes of occurrences that passed while nothing
// was started, because no tick came.
const (
	CatchUpNone = "none" // they are skipped, but for the one that was due first
	CatchUpAll  = "all"  // each makes its run, the oldest first
)

// MinInterval is the shortest interval in seconds.
const MinInterval = 60

// Schedule is a schedule. It starts runs of a deployment, or of a version of a
// flow.
type Schedule struct {
	record.Meta
	due.Entry       `json:"-"`
	ScheduleID      string                     `table:"id" json:"schedule_id"`
	FlowName        string                     `table:"flow" json:"flow_name" doc:"Of a schedule of a deployment: its flow when the schedule was last changed"`
	FlowVersion     *string                    `table:"version,omitempty" json:"flow_version" doc:"null: the deployment decides"`
	Deployment      *string                    `table:"deployment,omitempty" json:"deployment"`
	OfDeployment    bool                       `table:"own,omitempty" json:"set_on_deployment" doc:"It was set on the deployment, which keeps its timing and takes it along when it is deleted"`
	Mode            string                     `table:"mode" json:"mode" enum:"interval,cron"`
	IntervalSeconds *int64                     `table:"interval,omitempty" json:"interval_seconds"`
	CronExpression  *string                    `table:"cron,omitempty" json:"cron_expression"`
	Timezone        string                     `table:"zone" json:"timezone" doc:"An IANA name; of cron schedules"`
	Enabled         bool                       `table:"enabled" json:"enabled"`
	CatchupPolicy   string                     `table:"catchup" json:"catchup_policy" enum:"none,all"`
	Environment     *string                    `table:"env,omitempty" json:"environment" doc:"null: the deployment's, or default"`
	Parameters      map[string]json.RawMessage `table:"params,omitempty" json:"parameters"`
	ExecutionMode   *string                    `table:"tier,omitempty" json:"execution_mode" doc:"null: the deployment's, or the flow version's"`
	NextRunEpoch    *int64                     `table:"next,omitempty" json:"next_run_epoch" doc:"Unix seconds of the next occurrence; null while disabled, and if there is none"`
	LastRunAt       clock.Millis               `table:"last_at,omitempty" json:"last_run_at" doc:"Of the last occurrence that was handled"`
	LastRunID       *string                    `table:"last_run,omitempty" json:"last_run_id" doc:"The run of the last occurrence that made one"`
	LastError       *string                    `table:"last_error,omitempty" json:"last_error" doc:"Why the last occurrence made no run; null if it did"`
}

// SchemaName is the name of the schema in the API's description.
func (Schedule) SchemaName() string { return "ScheduleResponse" }

// Kind is the kind of record that schedules are, by id.
var Kind = record.Kind{Folder: "schedules", Type: "schedule", Noun: "Schedule", Limit: quota.Schedules}

// Due is the kind of timed work that schedules are. They follow the time of a
// tick that has one.
var Due = due.Kind{Name: "schedule", TakesNow: true}

// Attributes of a Schedule that an occurrence changes.
const (
	attrNext  = "next"
	attrLast  = "last_at"
	attrRun   = "last_run"
	attrError = "last_error"
)

// Timing computes occurrences. The zero value has none.
type Timing struct {
	every time.Duration
	cron  cron.Schedule
}

// Timing returns the schedule's timing. Errors: errs.Unprocessable naming the
// field that is at fault.
func (s *Schedule) Timing() (Timing, error) {
	switch s.Mode {
	case Interval:
		if s.IntervalSeconds == nil {
			return Timing{}, errs.Field(errs.Body("interval_seconds"), nil, "a schedule of mode interval needs interval_seconds")
		}
		return Timing{every: time.Duration(*s.IntervalSeconds) * time.Second}, nil
	case Cron:
		if s.CronExpression == nil {
			return Timing{}, errs.Field(errs.Body("cron_expression"), nil, "a schedule of mode cron needs cron_expression")
		}
		return CronTiming(*s.CronExpression, s.Timezone, "cron_expression")
	}
	return Timing{}, fmt.Errorf("schedule: the mode %q of %s is not known", s.Mode, s.ScheduleID)
}

// CronTiming returns the timing of a cron expression in an IANA zone; "" is UTC.
// Errors: errs.Unprocessable naming timezone or the expression's field.
func CronTiming(expression, zone, field string) (Timing, error) {
	place, err := cron.Zone(zone)
	if err != nil {
		return Timing{}, errs.Field(errs.Body("timezone"), zone, "there is no time zone of this name; IANA names are known, such as Europe/Berlin")
	}
	parsed, err := cron.Parse(expression, place)
	if err != nil {
		return Timing{}, errs.Field(errs.Body(field), expression, "%s", err)
	}
	return Timing{cron: parsed}, nil
}

// Plan sets the next occurrence of a schedule that is about to be stored in place
// of was, nil if it is new: the one that was has, while it is enabled and its
// timing does not change, else the first one after now. Errors: those of
// [Schedule.Timing].
func (s *Schedule) Plan(key table.Key, was *Schedule, now time.Time) error {
	timing, err := s.Timing()
	if err != nil {
		return err
	}
	switch {
	case !s.Enabled:
		s.SetNext(key, time.Time{})
	case was == nil || !was.Enabled || !was.SameTiming(s):
		s.SetNext(key, timing.First(now))
	}
	return nil
}

// SameTiming reports whether two schedules have the same occurrences.
func (s *Schedule) SameTiming(o *Schedule) bool {
	return s.Mode == o.Mode && s.Timezone == o.Timezone && same(s.IntervalSeconds, o.IntervalSeconds) && same(s.CronExpression, o.CronExpression)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// First returns the first occurrence after a time, for a schedule that begins
// then; the zero time if there is none.
func (t Timing) First(now time.Time) time.Time {
	if t.every > 0 {
		return now.Add(t.every).Truncate(time.Second)
	}
	return t.cron.Next(now)
}

// Next returns the occurrence that follows one, the zero time if there is none.
func (t Timing) Next(after time.Time) time.Time {
	if t.every > 0 {
		return after.Add(t.every)
	}
	return t.cron.Next(after)
}

// Skip returns the first occurrence after now of a timing that has one at a time
// before. Intervals keep their phase: ticks are a little late, each time.
func (t Timing) Skip(from, now time.Time) time.Time {
	if now.Before(from) {
		now = from
	}
	if t.every > 0 {
		return from.Add((now.Sub(from)/t.every + 1) * t.every)
	}
	return t.cron.Next(now)
}

// SetNext sets the next occurrence, the zero time for none.
func (s *Schedule) SetNext(key table.Key, at time.Time) {
	s.Entry, s.NextRunEpoch = Due.Entry(key, at), epoch(at)
}

func epoch(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.Unix())
}

// Occurred returns the write after an occurrence was handled, which fails with
// table.ErrConditionFailed if it had been: next is the next one, run what it
// made, failure why it made none.
func Occurred(task due.Task, now, next time.Time, run, failure string) table.Update {
	changes := []table.Action{record.Touch(now), table.Set(attrLast, clock.ToMillis(task.At))}
	if at := epoch(next); at != nil {
		changes = append(changes, table.Set(attrNext, *at))
	} else {
		changes = append(changes, table.Remove(attrNext))
	}
	if failure != "" {
		changes = append(changes, table.Set(attrError, failure))
	} else {
		changes = append(changes, table.Remove(attrError), table.Set(attrRun, run))
	}
	return due.Move(task, next, changes...)
}

// Failed returns the write that notes why an occurrence makes no run yet.
func Failed(task due.Task, now time.Time, failure string) table.Update {
	return table.Update{Key: task.Key, Do: []table.Action{record.Touch(now), table.Set(attrError, failure)}, If: task.IsDue()}
}
