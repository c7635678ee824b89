// Package notifier is the functions that deliver what alert rules wait for to
// their channels.
//
// An event of the bus becomes a delivery for each rule and channel, stored under
// a key of rule, channel and occurrence: however often the event comes, there is
// one. A delivery is timed work (package due): it is due at once, and again after
// each attempt that may succeed later. It is handed out by a message of its own,
// whose group is the workspace and the channel, so that a channel that does not
// answer delays no other; a message that is lost is repeated by the scheduler's
// tick. Whoever takes the delivery moves it first, so that two messages make one
// attempt. If a process dies between sending and storing the outcome, that one
// attempt is repeated with the same id, by which receivers can recognize it.
package notifier

import (
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
)

// name is the name of the function that takes events.
const name = "notifier"

// lease is how long the handler of an event may run.
const lease = time.Minute

// Specs are the domain's functions.
var Specs = []fn.Spec{Spec, DueSpec}

// Spec describes the function that makes deliveries of events.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Matches the ends of runs and the retries of tasks with alert rules.",
	Trigger:  fn.Trigger{DetailTypes: []string{events.DetailRunAlert, events.DetailTaskRetried}},
	Needs:    fn.Needs{Table: fn.Writes, Send: []string{Delivery.Queue()}},
	MemoryMB: 256,
	Timeout:  lease,
	Messages: handler,
}

// DueSpec describes the function that makes the attempts of deliveries, and looks
// for runs that take too long.
var DueSpec = fn.Spec{
	Name:     "notifier-due",
	Doc:      "Delivers notifications to channels, and finds runs that exceed the SLA of an alert rule.",
	Trigger:  fn.Trigger{Due: []due.Kind{Delivery, alert.SLA}},
	Needs:    fn.Needs{Table: fn.Writes, Vault: true, Mail: true, Links: true, Send: []string{Delivery.Queue(), alert.SLA.Queue()}},
	MemoryMB: 256,
	Timeout:  time.Minute,
	Messages: dueHandler,
}
