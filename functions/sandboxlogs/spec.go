// Package sandboxlogs serves the route by which a task's runner delivers the
// task's log, learns that it must stop and gets the links of files that the task
// saves or opens. It is not for users; its credential is a token of the attempt,
// see package ticket.
package sandboxlogs

import (
	"time"

	"millrace/shared/web/fn"
)

// name is the name of the function.
const name = "sandboxlogs"

// Path is the path of the route.
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
