package server

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/localstack/embedded/localbus"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tasktype"
	"millrace/shared/web/fn"
)

// visibility is the visibility time-out: longer than any task, as in the cloud.
// Only this process handles messages, and those of a dead process are visible
// at the next start.
const visibility = 90 * time.Minute

// busQueue returns the queue through which a function receives bus events.
func busQueue(spec fn.Spec) string { return "bus-" + spec.Name }

// definitions returns the service's queues, one for each kind of timed work,
// one for each function that receives bus events, and one for bucket events if
// a function receives them.
func definitions(specs []fn.Spec) []queue.Definition {
	var defs []queue.Definition
	for _, name := range events.AllQueues() {
		defs = append(defs, queue.Definition{Name: name, Visibility: visibility})
	}
	for _, spec := range specs {
		for _, kind := range spec.Trigger.Due {
			defs = append(defs, queue.Definition{Name: kind.Queue(), Visibility: visibility})
		}
		if len(spec.Trigger.DetailTypes) > 0 {
			defs = append(defs, queue.Definition{Name: busQueue(spec), Visibility: visibility})
		}
		if len(spec.Trigger.Objects.Events) > 0 {
			defs = append(defs, queue.Definition{Name: events.ObjectQueue, Visibility: visibility})
		}
	}
	return defs
}

// rules returns the bus rules that feed the functions' queues.
func rules(specs []fn.Spec) []localbus.Rule {
	var out []localbus.Rule
	for _, spec := range specs {
		if len(spec.Trigger.DetailTypes) > 0 {
			out = append(out, localbus.Rule{DetailTypes: spec.Trigger.DetailTypes, Where: spec.Trigger.DetailWhere, Queue: busQueue(spec)})
		}
	}
	return out
}

// waiting implements fn.Waiting.
func (s *Server) waiting(org, mode, kind string) string {
	if t, _ := tasktype.Find(kind); t.Sandboxed {
		if why := s.pool.Waiting(org); why != "" {
			return why
		}
	}
	return s.runtime.Waiting(events.Tasks(mode), org)
}

// withEventQueues adds the event queues to the triggers of their functions.
func withEventQueues(specs []fn.Spec) []fn.Spec {
	out := slices.Clone(specs)
	for i, spec := range out {
		var queues []fn.QueueTrigger
		if len(spec.Trigger.DetailTypes) > 0 {
			queues = append(queues, fn.QueueTrigger{Queue: busQueue(spec), Batch: queue.MaxBatch})
		}
		if len(spec.Trigger.Objects.Events) > 0 {
			queues = append(queues, fn.QueueTrigger{Queue: events.ObjectQueue, Batch: queue.MaxBatch})
		}
		out[i].Trigger.Queues = slices.Concat(spec.Trigger.Queues, queues)
	}
	return out
}
