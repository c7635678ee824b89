// Package health reports the health of the service.
package health

import (
	"time"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "health"

// Spec is the health function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "The state of the table, the object store and the queues.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Check: true, Table: fn.Reads, Blob: fn.Reads, Measure: measured()},
	MemoryMB: 256,
	Timeout:  10 * time.Second,
	Routes:   routes,
}

// measured returns the queues whose counts are in the report.
func measured() []string {
	names := events.AllQueues()
	for _, name := range events.AllQueues() {
		names = append(names, queue.Dead(name))
	}
	return names
}
