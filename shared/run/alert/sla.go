package alert

import (
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// SLA is the kind of timed work of rules of on_sla_breach: a look at the runs
// that have become older than sla_seconds since the last look. It costs nothing
// where there is no such rule, and accepting a run does nothing for it.
var SLA = due.Kind{Name: "alert-sla"}

// Times between two looks.
const (
	leastLook = 5 * time.Second
	mostLook  = time.Minute
)

// listLag is how late a run may appear in the lists of runs.
const listLag = 2 * time.Second

// Watch makes a rule of on_sla_breach, stored at key, due for its first look.
// Runs that were older than sla_seconds before are not looked at.
func (r *Rule) Watch(key table.Key, now time.Time) {
	r.Entry = SLA.Entry(key, now)
	r.Looked = clock.ToMillis(now.Add(-r.age()))
}

// limit is how long a run may take, counted from created_at: a run that waits in
// a queue is late as well.
func (r *Rule) limit() time.Duration {
	if r.SLASeconds == nil {
		return 0
	}
	return time.Duration(*r.SLASeconds) * time.Second
}

// age is the age at which runs are looked at.
func (r *Rule) age() time.Duration { return max(r.limit(), listLag) }

// Span returns the times of creation of the runs that a look considers, from
// included, to excluded.
func (r *Rule) Span(now time.Time) (from, to time.Time) {
	return r.Looked.Time(), now.Add(-r.age()).Truncate(time.Millisecond)
}

// Breached reports whether a run exceeds sla_seconds at now. ended is zero while
// it has not ended. A run that ended too late exceeded them as well.
func (r *Rule) Breached(created, ended, now time.Time) bool {
	if ended.IsZero() {
		ended = now
	}
	return ended.Sub(created) > r.limit()
}

// NextLook returns when the next look is due.
func (r *Rule) NextLook(now time.Time) time.Time {
	return now.Add(min(max(r.limit()/4, leastLook), mostLook))
}

// LookedTo returns the action that stores up to which time of creation runs were
// looked at.
func LookedTo(to time.Time) table.Action { return table.Set("looked", clock.ToMillis(to)) }
