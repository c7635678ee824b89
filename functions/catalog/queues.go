package catalog

import (
	"time"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// BusQueue returns the queue through which a function receives bus events.
func BusQueue(spec fn.Spec) string { return "bus-" + spec.Name }

// ObjectsTo returns the function for events of the bucket. ok is false if there
// is none.
func ObjectsTo(specs []fn.Spec) (fn.Spec, bool) {
	for _, s := range specs {
		if len(s.Trigger.Objects.Events) > 0 {
			return s, true
		}
	}
	return fn.Spec{}, false
}

// Queues returns the queues that trigger functions: those named by their
// triggers, one for each kind of timed work, one for each function that
// receives bus events, and one for the function that receives bucket events. As
// Lambda requires, the visibility time-out is longer than the function's
// time-out.
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
