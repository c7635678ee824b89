package worker

import (
	"context"

	"millrace/events"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// beginMap begins the instances of a map whose list is evaluated: the first
// hundred here, and each further hundred by a message.
func (g *graph) beginMap(ctx context.Context, n engine.Node, item *runstate.Node) error {
	g.remember(n, item)
	width := *item.Width
	var parts []events.Run
	for p := 1; p*g.flow.plan.FanWidth() < width; p++ {
		parts = append(parts, events.Run{Kind: events.RunPropagate, Node: int(n), Part: p}) //guard:map/parts when p > 1
	}
	if len(parts) > 0 {
		if err := g.sendAll(ctx, events.Tasks(g.run.Mode), parts, 0); err != nil {
			return err
		}
	}
	return g.expandPart(ctx, n, width, 0)
}

// expandPart makes one hundred instances ready. Those whose results are reused
// finish at once.
func (g *graph) expandPart(ctx context.Context, n engine.Node, width, part int) error {
	task := int(n)
	item, err := g.mapItem(ctx, task)
	if err != nil {
		return err
	}
	from, err := g.reused(ctx)
	if err != nil {
		return err
	}
	var reused []engine.Node
	first, end := part*g.flow.plan.FanWidth(), min((part+1)*g.flow.plan.FanWidth(), width)
	for i := first; i < end; i++ {
		instance := g.flow.plan.Instance(task, i)
		if item.Reuse && from != nil && from.Instance(task, i) { //guard:map/instances false
			reused = append(reused, instance)
			continue
		}
		g.ready = append(g.ready, ready{node: instance, attempt: 1})
	}
	if len(reused) == 0 {
		return nil
	}
	return g.reuseInstances(ctx, from, task, reused)
}

// reuseInstances finishes instances of a mapped task with the results of the
// source run.
func (g *graph) reuseInstances(ctx context.Context, from *runstate.Reuse, task int, nodes []engine.Node) error {
	var before map[engine.Node]*runstate.Node
	var err error
	if g.again {
		if before, err = runstate.LoadAll(ctx, g.Table, g.org, g.id, nodes); err != nil {
			return err
		}
	}
	own := g.flow.plan.Instance(task, 0)
	shift := from.Place(runstate.Place{Task: engine.Node(task), First: own}).First - own
	there := make([]engine.Node, len(nodes))
	for i, n := range nodes {
		there[i] = n + shift
	}
	sources, err := runstate.LoadAll(ctx, g.Table, g.org, from.Run, there)
	if err != nil {
		return err
	}
	g.sources = make(map[engine.Node]*runstate.Node, len(sources))
	for n, item := range sources {
		g.sources[n-shift] = item
	}
	var finished []done
	for _, n := range nodes {
		var d *done
		if item := before[n]; item != nil && item.Status != "" {
			d, err = g.known(ctx, n, item)
		} else {
			d, err = g.reuse(ctx, n, from)
		}
		if err != nil {
			return err
		}
		if d != nil {
			finished = append(finished, *d)
		}
	}
	return g.propagate(ctx, finished...)
}
