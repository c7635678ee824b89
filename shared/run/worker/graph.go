package worker

import (
	"context"
	"errors"

	"millrace/events"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// graph follows a run's plan: it propagates finished nodes to their dependents,
// decides those, and expands maps. Nodes to run are collected in ready. worst
// or onFailureDone is set when the run is to end. The driver acts on both.
type graph struct {
	*session

	ready         []ready
	worst         *engine.Outcome                // END is reached: all sinks are finished
	onFailureDone bool                           // the on_failure task is finished
	sources       map[engine.Node]*runstate.Node // items of the source run, read ahead
}

// done is a finished node to be propagated.
type done struct {
	node    engine.Node
	outcome engine.Outcome
	width   int // of the map that the node belongs to
}

// doneOf returns the done of a finished node's item.
func (g *graph) doneOf(ctx context.Context, n engine.Node, item *runstate.Node) (*done, error) {
	d := &done{node: n, outcome: item.Outcome()}
	ref, err := g.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	if ref.Kind == engine.KindInstance {
		parent, err := g.mapItem(ctx, ref.Task)
		if err != nil {
			return nil, err
		}
		d.width = *parent.Width
	}
	return d, nil
}

// targets returns the nodes that a finished one leads to.
func (g *graph) targets(d done) []engine.Target {
	if d.node != events.Start {
		return g.flow.plan.Targets(d.node, d.width)
	}
	roots := g.flow.plan.Roots()
	out := make([]engine.Target, len(roots))
	for i, r := range roots {
		out[i] = engine.Target{Node: r}
	}
	return out
}

// reachEnd records that all sinks are finished, with the worst of their
// outcomes.
func (g *graph) reachEnd(worst engine.Outcome) { g.worst = &worst }

// atEnd reports whether the run is to end.
func (g *graph) atEnd() bool { return g.worst != nil || g.onFailureDone }

// endsMap reports whether d is the last join of the map whose item t is.
func (g *graph) endsMap(d done, t engine.Ref) bool {
	if d.node == events.Start {
		return false
	}
	from, err := g.flow.plan.Ref(d.node)
	return err == nil && from.Kind == engine.KindJoin && from.Task == t.Task
}

// take returns the nodes that are ready and empties the list.
func (g *graph) take() []ready {
	nodes := g.ready
	g.ready = nil
	return nodes
}

// errNoItem means that an item that propagation needs does not exist.
var errNoItem = errors.New("no item to go on from")
