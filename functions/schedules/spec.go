// Package schedules is the functions that keep schedules and that start their
// runs.
package schedules

import (
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/run/schedule"
	"millrace/shared/web/fn"
)

// name is the name of the function that answers requests.
const name = "schedules"

// Specs are the domain's functions.
var Specs = []fn.Spec{Spec, DueSpec}

// Spec describes the function that answers requests.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps schedules, and starts their runs by hand.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues()},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}

// DueSpec describes the function that starts the runs of schedules that are due.
var DueSpec = fn.Spec{
	Name:     "schedules-due",
	Doc:      "Starts the runs of schedules that are due.",
	Trigger:  fn.Trigger{Due: []due.Kind{schedule.Due}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues()},
	MemoryMB: 512,
	Timeout:  time.Minute,
	Messages: handler,
}
