// Package dispatch reconciles runs: it takes their messages from the run control
// queue, mends what was lost, and ends runs that were stopped.
package dispatch

import (
	"time"

	"millrace/events"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// Spec is the dispatch function.
var Spec = fn.Spec{
	Name:     "dispatch",
	Doc:      "Reconciles runs that are due: repairs and ends them.",
	Trigger:  fn.Trigger{Queues: []fn.QueueTrigger{{Queue: events.Runs, Batch: 10}}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues(), Measure: events.TaskQueues(), Publish: true},
	MemoryMB: 512,
	Timeout:  2 * time.Minute,
	Messages: func(d fn.Deps) fn.MessageHandler { return Worker(d).Messages },
}

// Worker builds a worker that reconciles runs and executes nothing.
func Worker(d fn.Deps) *worker.Worker {
	return worker.New(d.Worker())
}
