package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"millrace/events"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// edge is a finished node and one of its targets, which is to be notified.
type edge struct {
	from done
	to   engine.Target
}

// propagate propagates finished nodes: it records them on each of their
// targets. Of targets that are complete it finishes joins and skipped tasks,
// and collects those to run in ready. It may be repeated at any time.
func (g *graph) propagate(ctx context.Context, from ...done) error {
	for len(from) > 0 && !g.atEnd() {
		edges, err := g.edges(ctx, from)
		if err != nil {
			return err
		}
		if from, err = g.notifyAll(ctx, edges); err != nil {
			return err
		}
	}
	return nil
}

// edges returns the edges of finished nodes. Of a node with more than a hundred
// targets it returns the first hundred and sends a message for each further
// hundred.
func (g *graph) edges(ctx context.Context, from []done) ([]edge, error) {
	var out []edge
	for _, d := range from {
		if d.node == g.flow.plan.OnFailure() {
			g.onFailureDone = true
			return nil, nil
		}
		targets := g.targets(d)
		if len(targets) > g.flow.plan.FanWidth() {
			var parts []events.Run
			for p := 1; p*g.flow.plan.FanWidth() < len(targets); p++ {
				//guard:propagate/wide when p > 1
				parts = append(parts, events.Run{Kind: events.RunPropagate, Node: int(d.node), Part: p})
			}
			if err := g.sendAll(ctx, events.Tasks(g.run.Mode), parts, 0); err != nil {
				return nil, err
			}
			targets = targets[:g.flow.plan.FanWidth()]
		}
		for _, t := range targets {
			out = append(out, edge{d, t})
		}
	}
	return out, nil
}

// part handles one part of a wide propagation: of a finished node's targets, or
// of the instances of a map whose list is evaluated.
func (g *graph) part(ctx context.Context, m events.Run) error {
	n, d := engine.Node(m.Node), &done{node: engine.Node(m.Node)}
	if m.Node != events.Start {
		item, err := g.node(ctx, n)
		if err != nil {
			return err
		}
		if item == nil {
			return fmt.Errorf("worker: node %d of run %s: %w", n, g.id, errNoItem)
		}
		if item.Width != nil && item.Status == engine.Running {
			g.remember(n, item)
			return g.expandPart(ctx, n, *item.Width, m.Part)
		}
		if d, err = g.doneOf(ctx, n, item); err != nil {
			return err
		}
	}
	targets := g.targets(*d)
	first := min(m.Part*g.flow.plan.FanWidth(), len(targets))
	var edges []edge
	for _, t := range targets[first:min(first+g.flow.plan.FanWidth(), len(targets))] {
		edges = append(edges, edge{*d, t})
	}
	more, err := g.notifyAll(ctx, edges)
	if err != nil {
		return err
	}
	return g.propagate(ctx, more...)
}

// notifyAll notifies each target once of all nodes that finished together: a
// hundred skipped tasks cost one write to a join, not a hundred. It returns the
// nodes that finish thereby.
func (g *graph) notifyAll(ctx context.Context, edges []edge) ([]done, error) {
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.to.Node, b.to.Node) })
	known, err := g.decided(ctx, edges)
	if err != nil {
		return nil, err
	}
	var more []done
	for len(edges) > 0 {
		n := 1
		for n < len(edges) && edges[n].to.Node == edges[0].to.Node {
			n++
		}
		next, err := g.notify(ctx, edges[:n], known)
		if err != nil || g.atEnd() {
			return nil, err
		}
		if next != nil {
			more = append(more, *next)
		}
		edges = edges[n:]
	}
	return more, nil
}

// decided reads the items of those targets that are not written by their
// notification, if this may have been done before.
func (g *graph) decided(ctx context.Context, edges []edge) (map[engine.Node]*runstate.Node, error) {
	if !g.again {
		return nil, nil
	}
	var nodes []engine.Node
	for _, e := range edges {
		if ref, err := g.flow.plan.Ref(e.to.Node); err == nil && e.to.Need <= 1 && ref.Kind == engine.KindTask {
			nodes = append(nodes, e.to.Node)
		}
	}
	nodes = slices.Compact(nodes)
	if len(nodes) == 0 {
		return nil, nil
	}
	return runstate.LoadAll(ctx, g.Table, g.org, g.id, nodes)
}

// notify records on a node that some of its dependencies have finished. If they
// were the last, the node is decided; if it finishes thereby it is returned.
// known are items that the node may have.
func (g *graph) notify(ctx context.Context, edges []edge, known map[engine.Node]*runstate.Node) (*done, error) {
	d, t := edges[0].from, edges[0].to
	ref, err := g.flow.plan.Ref(t.Node)
	if err != nil {
		return nil, err
	}
	sets := engine.One(d.outcome)
	item := known[t.Node]
	switch {
	case t.Need == 0: // a task without dependencies
		sets = engine.Sets{}
	case t.Need > 1:
		if item, err = g.note(ctx, edges); err != nil {
			return nil, err
		}
		if sets = item.Sets(); sets.Count() < t.Need { //guard:notify/all false
			return nil, nil
		}
	}
	switch ref.Kind {
	case engine.KindJoin:
		//guard:join/worst field outcome engine.OutcomeOK
		return &done{node: t.Node, outcome: sets.Worst(), width: d.width}, nil
	case engine.KindEnd:
		g.reachEnd(sets.Worst()) //guard:end/sinks arg 1 d.outcome
		return nil, nil
	}
	switch {
	case g.endsMap(d, ref):
		return g.collect(ctx, t.Node, d, item)
	case item != nil && item.Status != "":
		return g.known(ctx, t.Node, item)
	}
	return g.decide(ctx, t.Node, sets)
}

// note adds the numbers of dependencies to a node's sets.
func (g *graph) note(ctx context.Context, edges []edge) (*runstate.Node, error) {
	//guard:log/before-end when false
	if err := g.flush(ctx); err != nil { // others may end the run on the basis of what only this process has in memory
		return nil, err
	}
	sets := map[string][]int{}
	for _, e := range edges {
		set := runstate.SetOf(e.from.outcome) //guard:notify/outcome arg 1 engine.OutcomeOK
		//guard:notify/idempotent arg 2 int(e.from.node) + 100_000*int(g.Clock.Now().UnixNano()%1e9)
		sets[set] = append(sets[set], int(e.from.node))
	}
	do := runstate.Keep(g.Quota, g.org, g.Clock.Now())
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		//guard:notify/all-kept arg 2 table.Set(set, table.SetOf(sets[set]...))
		do = append(do, table.AddToSet(set, sets[set]...))
	}
	n := edges[0].to.Node
	stored, err := g.Table.Update(ctx, table.Update{Key: runstate.NodeKey(g.org, g.id, n), Do: do})
	if err != nil {
		return nil, fmt.Errorf("note %d nodes on %d: %w", len(edges), n, err)
	}
	item := &runstate.Node{}
	return item, table.Unmarshal(stored, item)
}
