package quota

import "time"

// maxDays is the longest retention that can be set; [Unlimited] is longer.
const maxDays = 36_500

const day = 24 * time.Hour

// Kept returns how long a retention keeps the records of a workspace. ok is false if
// it keeps them for ever. A nil Quota does.
func (q *Quota) Kept(org string, name Name) (kept time.Duration, ok bool) {
	if q == nil {
		return 0, false
	}
	days, limited := q.of(name, org)
	return time.Duration(days) * day, limited
}

// Expiry returns when what a retention of a workspace begins to count for at a time
// expires, in Unix seconds as for [table.TTLAttribute]; 0: never.
func (q *Quota) Expiry(org string, name Name, at time.Time) int64 {
	kept, ok := q.Kept(org, name)
	if !ok {
		return 0
	}
	return at.Add(kept).Unix()
}
