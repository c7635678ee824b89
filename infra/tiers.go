package main

import (
	"millrace/events"
	"millrace/functions/catalog"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// served reports whether a function receives from a queue: not from the task
// queues of tiers that the deployment does not have. The data stack has all of
// them, so that a tier can be removed and added again without a change of kept
// resources, whose names would be taken. A queue without a mapping costs nothing.
func (c Config) served(name string) bool {
	t, is := events.TierOf(name)
	return !is || c.Tiers.Has(tier.Tier(t))
}

// watchedQueues returns the queues that functions receive from.
func (c Config) watchedQueues(specs []fn.Spec) []queue.Definition {
	var out []queue.Definition
	for _, def := range catalog.Queues(specs) {
		if c.served(def.Name) {
			out = append(out, def)
		}
	}
	return out
}
