// Package backfills is the functions that run a flow once for each occurrence
// in a window of time.
//
// A backfill is a job with numbered intervals. Its item holds how far it has
// come: intervals below Next were begun, of which those in Active are not
// finished. It is changed on the condition that nothing else has changed it, so
// that of any number of concurrent events and ticks one makes each step. A step
// (1) settles intervals whose runs have ended, and enters the next ones as
// active; (2) has their runs made, each as the occurrence of its backfill and
// index, of which there is one however often it is asked for; (3) notes the
// runs. After a crash in between, the next step finds an active interval
// without a run, and asks again.
//
// Steps are made when a run of the job ends, by the event of its end, and every
// minute while the job is due, in case an event was lost.
package backfills

import (
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
)

// name is the name of the function that answers requests.
const name = "backfills"

// Specs are the domain's functions.
var Specs = []fn.Spec{Spec, DueSpec, EventsSpec}

// Due is the kind of timed work that unfinished backfills are.
var Due = due.Kind{Name: "backfill"}

// Spec describes the function that answers requests.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps backfills.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Reads, Send: []string{Due.Queue()}},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}

// dispatches is what the functions need that make the runs of backfills.
var dispatches = fn.Needs{
	Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: append(events.AllQueues(), Due.Queue()),
}

// DueSpec describes the function that begins backfills, and looks at unfinished
// ones every minute.
var DueSpec = fn.Spec{
	Name:     "backfills-due",
	Doc:      "Begins backfills, and goes on with those whose events were lost.",
	Trigger:  fn.Trigger{Due: []due.Kind{Due}},
	Needs:    dispatches,
	MemoryMB: 512,
	Timeout:  time.Minute,
	Messages: dueHandler,
}

// lease is how long an event may be handled.
const lease = 20 * time.Second

// EventsSpec describes the function that goes on with a backfill when one of its
// runs ends.
var EventsSpec = fn.Spec{
	Name: "backfills-events",
	Doc:  "Goes on with a backfill when one of its runs has ended.",
	Trigger: fn.Trigger{
		DetailTypes: []string{events.DetailRunFinished}, DetailWhere: map[string][]string{"trigger_source": {launchedAs}},
	},
	Needs:    dispatches,
	MemoryMB: 512,
	Timeout:  lease,
	Messages: eventHandler,
}
