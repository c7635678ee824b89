// Package schedulertick is invoked every minute: it reads what has fallen due
// and has it seen to.
package schedulertick

import (
	"time"

	"millrace/events"
	"millrace/shared/web/fn"
)

// Spec is the scheduler-tick function.
var Spec = fn.Spec{
	Name:     "scheduler-tick",
	Doc:      "Sees to what has fallen due: live runs that are to be reconciled.",
	Trigger:  fn.Trigger{EveryMinute: true},
	Needs:    fn.Needs{Table: fn.Writes, Send: []string{events.Runs}},
	MemoryMB: 512,
	Timeout:  time.Minute,
	Handle:   handler,
}
