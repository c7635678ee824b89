// Package events holds what crosses functions: messages, and the names of the
// queues they travel on.
package events

import (
	"strings"

	"millrace/shared/run/tier"
)

// Runs is the queue of run control: a message asks for one reconciliation at one run.
const Runs = "runs"

// Tasks returns the name of a tier's task queue, e.g. "tasks-nano".
func Tasks(tier string) string { return "tasks-" + tier }

// TierOf returns the tier of a task queue, and false for another queue.
func TierOf(queue string) (tier string, ok bool) { return strings.CutPrefix(queue, Tasks("")) }

// TaskQueues returns the names of all task queues, smallest tier first.
func TaskQueues() []string {
	tiers := tier.All()
	names := make([]string, len(tiers))
	for i, t := range tiers {
		names[i] = Tasks(string(t))
	}
	return names
}

// AllQueues returns the names of every queue of the service, dead-letter
// queues not among them.
func AllQueues() []string { return append([]string{Runs}, TaskQueues()...) }
