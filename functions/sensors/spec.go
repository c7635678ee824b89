// Package sensors is the functions that keep sensors, and that start the runs
// of flows when something happens: a request of a webhook, an answer of a polled
// URL, an object stored in a bucket.
package sensors

import (
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
)

// name is the name of the function that answers requests.
const name = "sensors"

// Specs are the domain's functions.
var Specs = []fn.Spec{Spec, ObjectsSpec, PollSpec}

// Spec describes the function that answers requests, those of webhooks among
// them.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Keeps sensors, and starts the runs that webhooks ask for.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues(), Vault: true},
	MemoryMB: 512,
	Timeout:  29 * time.Second,
	Routes:   routes,
}

// ObjectsSpec describes the function that starts the runs of sensors that watch
// buckets.
var ObjectsSpec = fn.Spec{
	Name:     "object-events",
	Doc:      "Starts the runs of sensors that watch buckets.",
	Trigger:  fn.Trigger{Objects: fn.ObjectTrigger{Events: []fn.ObjectEvent{fn.ObjectCreated}, Users: true}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues()},
	MemoryMB: 512,
	Timeout:  time.Minute,
	Messages: objectMessages,
}

// PollSpec describes the function that polls the sensors that are due.
var PollSpec = fn.Spec{
	Name:     "sensors-poll",
	Doc:      "Polls the URLs of sensors that are due, and starts the runs of those that match.",
	Trigger:  fn.Trigger{Due: []due.Kind{Poll}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues(), Vault: true},
	MemoryMB: 512,
	Timeout:  time.Minute,
	Messages: poller,
}
