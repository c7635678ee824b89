package catalog

import (
	"time"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// BusQueue is the queue through which a function gets events of the bus.
func BusQueue(spec fn.Spec) string { return "bus-" + spec.Name }

// ObjectsTo returns the function that gets events of the bucket, false if none
// does.
func ObjectsTo(specs []fn.Spec) (fn.Spec, bool) {
	for _, s := range specs {
		if len(s.Trigger.Objects.Events) > 0 {
			return s, true
		}
	}
	return fn.Spec{}, false
}

// Queues are the queues that feed functions: those that their triggers name, one
// for each kind of timed work, one for each function that gets events of the bus,
// and one for the function that gets events of the bucket. A message stays away from others for longer than its
// function may take, which Lambda asks for.
func Queues(specs []fn.Spec) []queue.Definition {
	var defs []queue.Definition
	for _, spec := range specs {
		visibility := spec.Timeout + time.Minute
		for _, q := range spec.Trigger.Queues {
			defs = append(defs, queue.Definition{Name: q.Queue, Visibility: visibility})
		}
		for _, kind := range spec.Trigger.Due {
			defs = append(defs, queue.Definition{Name: kind.Queue(), Visibility: visibility})
		}
		if len(spec.Trigger.DetailTypes) > 0 {
			defs = append(defs, queue.Definition{Name: BusQueue(spec), Visibility: visibility})
		}
		if len(spec.Trigger.Objects.Events) > 0 {
			defs = append(defs, queue.Definition{Name: events.ObjectQueue, Visibility: visibility})
		}
	}
	return defs
}
