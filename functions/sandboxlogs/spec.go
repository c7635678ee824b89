// Package sandboxlogs is the sandbox's way back: the route by which the runner
// of a task hands over the task's log, and learns that it is to stop. It is
// called by no user; its credential is a token of the attempt, package ticket.
package sandboxlogs

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the function's.
const name = "sandboxlogs"

// Path is where the runner posts to.
const Path = "/internal/attempts/logs"

// Spec is the sandboxlogs function.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Takes the logs of running tasks from the sandbox and tells it which are to stop.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, AttemptKey: true},
	MemoryMB: 256,
	Timeout:  20 * time.Second,
	Routes:   routes,
}
