// Package runs is the function that accepts, shows, lists, compares, cancels
// and retries runs, and pages through their logs.
package runs

import (
	"time"

	"millrace/events"
	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "runs"

// Spec is the runs function. Its timeout leaves room for requests that wait for
// their run.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Accepts runs, shows, lists, compares, cancels and retries them, and pages through their logs.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues()},
	MemoryMB: 512,
	Timeout:  15 * time.Minute,
	Routes:   routes,
}
