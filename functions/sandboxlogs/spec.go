// Package sandboxlogs serves the routes by which a task's runner begins its
// attempt, delivers the task's log, learns that it must stop, gets the links of
// files that the task saves or opens, and delivers the result. They are not for
// users; their credential is a token of the attempt, see package ticket.
package sandboxlogs

import (
	"time"

	"millrace/events"
	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "sandboxlogs"

// Prefix is what the paths of the routes begin with.
const Prefix = "/internal/attempts"

// Paths of the routes.
const (
	StartPath    = Prefix + "/start"
	Path         = Prefix + "/logs"
	CompletePath = Prefix + "/complete"
)

// Spec is the sandboxlogs function.
var Spec = fn.Spec{
	Name:    name,
	Doc:     "Gives the sandbox its tasks, takes their logs and results, and tells it which are to stop.",
	Trigger: fn.Trigger{HTTP: true, OwnURL: true},
	Needs: fn.Needs{
		Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, AttemptKey: true,
		// What follows from a result is done at once, as by a worker.
		Send: events.AllQueues(), Publish: true, Sandbox: true, Vault: true,
	},
	MemoryMB: 512,
	Timeout:  28 * time.Second,
	Routes:   routes,
}
