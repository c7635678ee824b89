package server

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/localstack/embedded/localbus"
	"millrace/shared/fn"
	"millrace/shared/queue"
)

// visibility is how long a delivered message stays away from others: longer
// than any task, as in the cloud, for this process alone handles messages, and
// those of one that died are visible at the next start.
const visibility = 90 * time.Minute

// busQueue is the queue through which a function gets events of the bus.
func busQueue(spec fn.Spec) string { return "bus-" + spec.Name }

// definitions are the service's queues, and one for each function that gets
// events of the bus.
func definitions(specs []fn.Spec) []queue.Definition {
	var defs []queue.Definition
	for _, name := range events.AllQueues() {
		defs = append(defs, queue.Definition{Name: name, Visibility: visibility})
	}
	for _, spec := range specs {
		if len(spec.Trigger.DetailTypes) > 0 {
			defs = append(defs, queue.Definition{Name: busQueue(spec), Visibility: visibility})
		}
	}
	return defs
}

// rules put the events of the bus on the queues of those who get them.
func rules(specs []fn.Spec) []localbus.Rule {
	var out []localbus.Rule
	for _, spec := range specs {
		if len(spec.Trigger.DetailTypes) > 0 {
			out = append(out, localbus.Rule{DetailTypes: spec.Trigger.DetailTypes, Queue: busQueue(spec)})
		}
	}
	return out
}

// withBusQueues adds these queues to the triggers of their functions.
func withBusQueues(specs []fn.Spec) []fn.Spec {
	out := slices.Clone(specs)
	for i, spec := range out {
		if len(spec.Trigger.DetailTypes) > 0 {
			out[i].Trigger.Queues = append(slices.Clone(spec.Trigger.Queues), fn.QueueTrigger{Queue: busQueue(spec), Batch: queue.MaxBatch})
		}
	}
	return out
}
