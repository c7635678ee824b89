package catalog

import (
	"context"

	"millrace/events"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tier"
)

// reachable are queues in which the task queue of the default tier stands for
// those of the tiers that a deployment does not have, from which nobody receives:
// a run that was accepted before its tier was removed goes on there, and ends.
type reachable struct {
	queue.Queues
	tiers tier.Set
}

func (r reachable) of(name string) string {
	if t, is := events.TierOf(name); is {
		return events.Tasks(string(r.tiers.Nearest(tier.Tier(t))))
	}
	return name
}

func (r reachable) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	return r.Queues.Send(ctx, r.of(name), msgs...)
}

func (r reachable) Depth(ctx context.Context, name string) (int, error) {
	return r.Queues.Depth(ctx, r.of(name))
}
