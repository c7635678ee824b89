// Package retention is the function that removes a workspace's objects whose
// retention is over: outputs, inputs and logs of expired runs, and bodies of
// messages that no queue has any more.
package retention

import (
	"time"

	"millrace/shared/account/retention"
	"millrace/shared/kit/due"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// runsFolder is the folder of the objects of runs, in each workspace.
const runsFolder = "runs"

// Spec is the retention function.
var Spec = fn.Spec{
	Name:     "retention",
	Doc:      "Removes the objects of a workspace whose retention is over.",
	Trigger:  fn.Trigger{Due: []due.Kind{retention.Sweeping}},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{runsFolder, queue.BodyFolder}},
	MemoryMB: 256,
	Timeout:  5 * time.Minute,
	Messages: func(d fn.Deps) fn.MessageHandler {
		s := &service{table: d.Table, blob: d.Blob, quota: d.Quota, clock: d.Clock}
		return d.Due(s.sweep)
	},
}
