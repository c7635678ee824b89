// Package retention is the timed work of removing a workspace's objects whose
// retention is over. Items of the table have an expiry of their own.
package retention

import (
	"hash/fnv"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/table"
)

// Sweeping is the timed work, once a day for each workspace. Its item is the
// workspace's [Sweep].
var Sweeping = due.Kind{Name: "retention"}

// Sweep is when the objects of a workspace are looked at next.
type Sweep struct {
	table.Key
	due.Entry
}

// Key returns the key of a workspace's Sweep.
func Key(org string) table.Key { return table.Key{PK: org + "#retention", SK: "sweep"} }

// Begin returns the write that begins the sweeps of a workspace. It belongs in
// the transaction that creates the workspace.
func Begin(org string, now time.Time) table.Put {
	key := Key(org)
	return table.Put{If: table.IsNew(), Item: Sweep{Key: key, Entry: Sweeping.Entry(key, Next(org, now))}}
}

// Next returns when a workspace's objects are looked at after now: on the next
// UTC day, at a time that is the workspace's own.
func Next(org string, now time.Time) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(org))
	const day = 24 * time.Hour
	return now.UTC().Truncate(day).Add(day + time.Duration(h.Sum32())*time.Second%day)
}
