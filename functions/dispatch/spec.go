// Package dispatch reconciles runs: it receives their messages from the run
// control queue, repairs what was lost, and ends stopped runs.
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

// Worker returns a worker that reconciles runs and executes no tasks.
func Worker(d fn.Deps) *worker.Worker {
	return worker.New(d.Worker())
}
