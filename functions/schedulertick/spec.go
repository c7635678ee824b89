// Package schedulertick is invoked every minute: it reads the due entries and
// sends them to their handlers, live runs to reconciliation and timed work
// (package due) to the functions that handle it. It knows nothing else about
// either.
package schedulertick

import (
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/web/fn"
)

// Spec is the scheduler-tick function of a service whose only due entries are
// runs.
var Spec = For()

// For returns the scheduler-tick function of a service with kinds of timed
// work.
func For(kinds ...due.Kind) fn.Spec {
	queues := []string{events.Runs}
	for _, kind := range kinds {
		queues = append(queues, kind.Queue())
	}
	return fn.Spec{
		Name:     "scheduler-tick",
		Doc:      "Sees to what has fallen due: live runs that are to be reconciled, and timed work.",
		Trigger:  fn.Trigger{EveryMinute: true},
		Needs:    fn.Needs{Table: fn.Writes, Send: queues},
		MemoryMB: 1769, // a whole processor, for a minute with 100,000 entries
		Timeout:  time.Minute,
		Handle:   func(d fn.Deps) fn.Handler { return handler(d, kinds) },
	}
}
