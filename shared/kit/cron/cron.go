// Package cron computes the occurrences of cron expressions in time zones.
//
// An expression has five fields (minute, hour, day of month, month, day of week)
// or is one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and
// @annually. Months and days of the week may be named, and a range may go past
// the end of its field ("22-2"). A day matches if its day of month or its day of
// week does; if one of the two fields is "*", if the other one does.
//
// Where a clock is changed, an expression that names every hour follows elapsed
// time: "*/15 * * * *" occurs every 15 minutes, whatever the clock shows. Any
// other one follows the clock: what would occur while the clock skips time occurs
// once, right after that, and what would occur twice, because the clock repeats
// time, occurs the first time only.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known where the system has no database of them

	parser "github.com/netresearch/go-cron"
)

const (
	everyHour = 1<<24 - 1
	// searchYears is how far ahead occurrences are looked for: 29 February can be
	// eight years away.
	searchYears = 10
	// maxLength is the longest expression.
	maxLength = 256
)

// expressions parses five fields.
var expressions = parser.MustNewParser(
	parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow | parser.Descriptor | parser.DowOrDom,
).WithMaxSearchYears(searchYears)

// Schedule is an expression in a time zone. The zero value never occurs.
type Schedule struct {
	spec *parser.SpecSchedule
	zone *time.Location
}

// Parse reads an expression. Errors say what is wrong with it, for the user:
// also of one that never occurs, such as that of 30 February.
func Parse(expression string, zone *time.Location) (Schedule, error) {
	text := strings.TrimSpace(expression)
	switch {
	case text == "":
		return Schedule{}, errors.New("the expression is empty")
	case len(text) > maxLength:
		return Schedule{}, fmt.Errorf("the expression has more than %d bytes", maxLength)
	case strings.HasPrefix(text, "@every"):
		return Schedule{}, errors.New("@every is not supported: use an interval")
	case strings.Contains(text, "="):
		return Schedule{}, errors.New("the time zone is a field of its own, not a part of the expression")
	}
	if n := len(strings.Fields(text)); n != 5 && !strings.HasPrefix(text, "@") {
		return Schedule{}, fmt.Errorf("it has %d fields; five are expected: minute, hour, day of month, month, day of week", n)
	}
	for _, field := range strings.Fields(text) {
		if strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,") {
			return Schedule{}, fmt.Errorf("the list %q has an empty element", field)
		}
	}
	parsed, err := expressions.Parse(text)
	if err != nil {
		return Schedule{}, err
	}
	spec, ok := parsed.(*parser.SpecSchedule)
	if !ok {
		return Schedule{}, fmt.Errorf("%q is not supported", text)
	}
	spec.Location = time.UTC // the wall clock's times are computed as if there were no zone
	if spec.Next(time.Unix(0, 0).UTC()).IsZero() {
		return Schedule{}, errors.New("there is no day on which it occurs")
	}
	return Schedule{spec, zone}, nil
}

// Zone returns the zone of an IANA name, such as Europe/Berlin; UTC for "".
func Zone(name string) (*time.Location, error) {
	if name == "Local" { // the machine's, which differs from one to the other
		return nil, errors.New("unknown time zone Local")
	}
	return time.LoadLocation(name)
}

// Next returns the first occurrence after a time, in UTC; the zero time if there
// is none within ten years.
func (s Schedule) Next(after time.Time) time.Time {
	switch {
	case s.spec == nil:
		return time.Time{}
	case s.spec.Hour&everyHour == everyHour:
		return s.nextElapsed(after)
	}
	return s.nextOnClock(after)
}

// nextElapsed steps over the instants at which the clock shows a time of the
// expression. Between two changes of the clock it shows what UTC does, shifted.
func (s Schedule) nextElapsed(after time.Time) time.Time {
	last := after.AddDate(searchYears, 0, 0)
	for since := after; since.Before(last); {
		local := since.In(s.zone)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		shift := time.Duration(offset) * time.Second
		next := s.spec.Next(after.UTC().Add(shift))
		if next.IsZero() {
			return next
		}
		if next = next.Add(-shift); end.IsZero() || next.Before(end) {
			return next
		}
		since, after = end, end.Add(-time.Second) // the change itself may be an occurrence
	}
	return time.Time{}
}

// nextOnClock steps over the times that the clock shows, or skips.
func (s Schedule) nextOnClock(after time.Time) time.Time {
	shown := onClock(after.In(s.zone))
	// What the clock skipped before now may be due right now, and what it is about
	// to repeat is over: begin before any change of the last day.
	if start, _ := after.In(s.zone).ZoneBounds(); after.Sub(start) < dayAndMore {
		shown = shown.Add(-dayAndMore)
	}
	for {
		shown = s.spec.Next(shown)
		if shown.IsZero() {
			return shown
		}
		if at := instant(shown, s.zone); at.After(after) {
			return at
		}
	}
}

// dayAndMore is longer than any change of a clock, the longest of which skipped
// the day that an island changed its side of the date line.
const dayAndMore = 25 * time.Hour

// onClock is what the clock shows at a time, as a time of UTC.
func onClock(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is when a zone's clock first shows a time, which is given as one of
// UTC, or when it jumps past it.
func instant(shown time.Time, zone *time.Location) time.Time {
	at := shown.Add(-dayAndMore) // before: no zone is that far ahead of UTC
	for {
		local := at.In(zone)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		found := shown.Add(-time.Duration(offset) * time.Second)
		switch {
		case found.Before(at):
			return at.UTC() // it was skipped when this offset began
		case end.IsZero() || found.Before(end):
			return found
		}
		at = end
	}
}
