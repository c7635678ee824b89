// Package events defines the messages between functions and the names of their
// queues.
package events

import (
	"strings"

	"millrace/shared/run/tier"
)

// Runs is the queue of run control: a message requests one reconciliation of
// one run.
const Runs = "runs"

// Tasks returns the name of a tier's task queue, e.g. "tasks-nano".
func Tasks(tier string) string { return "tasks-" + tier }

// TierOf returns the tier of a task queue. ok is false for another queue.
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

// AllQueues returns the names of all queues of the service, without dead-letter
// queues.
func AllQueues() []string { return append([]string{Runs}, TaskQueues()...) }
