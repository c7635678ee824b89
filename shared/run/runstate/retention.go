package runstate

import (
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/table"
)

// A run's record expires when its retention is over, which begins at the run's
// end. Everything else of the run is written before that, and may outlive the
// record, because nothing reads it without the record.

// Slack is how much longer than a run's record the other items of a run are kept.
// A run that lives longer than half of it has the expiry of its items moved (see
// [StaleAfter]), so that they never expire before the record. A retry that began
// before its source expired has this long to read what it reuses.
const Slack = 4 * 24 * time.Hour

// StaleAfter is the age at which a live run's items have their expiry moved.
const StaleAfter = Slack / 2

// Expiry returns when an item of a workspace's run that is written at a time expires,
// other than the record, in Unix seconds; 0: never.
func Expiry(q *quota.Quota, org string, at time.Time) int64 {
	return q.Expiry(org, quota.RunDays, at.Add(Slack))
}

// Keep returns the actions, at most one, that set the expiry of an item of a
// workspace's run that is written at a time.
func Keep(q *quota.Quota, org string, at time.Time) []table.Action {
	expires := Expiry(q, org, at)
	if expires == 0 {
		return nil
	}
	return []table.Action{table.Set(table.TTLAttribute, expires)}
}

// Expired reports whether the run's retention is over: it is to be treated as
// one that does not exist.
func (r *Run) Expired(now time.Time) bool { return r.Expires != 0 && now.Unix() >= r.Expires } //guard:retention/run false
