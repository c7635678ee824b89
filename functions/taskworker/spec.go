// Package taskworker executes the tasks of runs: it receives start and task
// messages from the queues of the tiers and passes them to the worker.
package taskworker

import (
	"time"

	"millrace/events"
	"millrace/shared/web/fn"
)

// Spec is the taskworker function.
var Spec = fn.Spec{
	Name:     "taskworker",
	Doc:      "Starts runs and executes their tasks.",
	Trigger:  fn.Trigger{Queues: triggers()},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues(), Publish: true, Sandbox: true, Vault: true},
	MemoryMB: 512,
	Timeout:  15 * time.Minute,
	Messages: messages,
}

func triggers() []fn.QueueTrigger {
	var out []fn.QueueTrigger
	for _, q := range events.TaskQueues() {
		out = append(out, fn.QueueTrigger{Queue: q, Batch: 10})
	}
	return out
}
