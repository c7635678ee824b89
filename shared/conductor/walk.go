package conductor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"millrace/events"
	"millrace/shared/engine"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// done is a finished node, as a walk goes on from it.
type done struct {
	node    engine.Node
	outcome engine.Outcome
	width   int    // of the map that the node belongs to
	failure string // how it failed, "" if it did not
}

// targets are the nodes that a finished one leads to.
func (s *session) targets(d done) []engine.Target {
	if d.node != events.Start {
		return s.flow.plan.Targets(d.node, d.width)
	}
	roots := s.flow.plan.Roots()
	out := make([]engine.Target, len(roots))
	for i, r := range roots {
		out[i] = engine.Target{Node: r}
	}
	return out
}

// edge is what a walk has to tell: that a node finished, to one it leads to.
type edge struct {
	from done
	to   engine.Target
}

// walk goes on from finished nodes: it tells each node they lead to, and of
// those that are complete it finishes joins, skips, and collects in s.ready
// what is to run. It may be repeated at any time.
func (s *session) walk(ctx context.Context, from ...done) error {
	if s.run.Status.RunEnded() { // a walk that was made before, up to the end
		return s.finalize(ctx)
	}
	for len(from) > 0 {
		edges, err := s.edges(ctx, from)
		if err != nil {
			return err
		}
		if from, err = s.tellAll(ctx, edges); err != nil {
			return err
		}
	}
	return nil
}

// edges lists what finished nodes lead to; of a node that leads to more than a
// hundred the first hundred, with a message for each further hundred.
func (s *session) edges(ctx context.Context, from []done) ([]edge, error) {
	for _, d := range from { // before anything that could end the run
		if d.failure != "" { //guard:walk/failure false
			if err := s.noteFailure(ctx, d.failure); err != nil {
				return nil, err
			}
		}
	}
	var out []edge
	for _, d := range from {
		if d.node == s.flow.plan.OnFailure() {
			return nil, s.endOnFailure(ctx)
		}
		targets := s.targets(d)
		if len(targets) > engine.FanWidth {
			var parts []events.Run
			for p := 1; p*engine.FanWidth < len(targets); p++ {
				//guard:walk/wide when p > 1
				parts = append(parts, events.Run{Kind: events.RunWalk, Node: int(d.node), Part: p})
			}
			if err := s.sendAll(ctx, events.Tasks(s.run.Mode), parts, 0); err != nil {
				return nil, err
			}
			targets = targets[:engine.FanWidth]
		}
		for _, t := range targets {
			out = append(out, edge{d, t})
		}
	}
	return out, nil
}

// part does one part of a wide walk, or of a map's instances.
func (s *session) part(ctx context.Context, m events.Run) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	if s.run.Fenced(s.Clock.Now()) != "" {
		return s.settle(ctx)
	}
	n := engine.Node(m.Node)
	d := &done{node: n}
	if m.Node != events.Start {
		item, err := s.node(ctx, n)
		if err != nil {
			return err
		}
		if item == nil {
			return fmt.Errorf("conductor: node %d of run %s has no item to go on from", n, s.id)
		}
		if m.Kind == events.RunExpand {
			if err := s.expandPart(ctx, n, *item.Width, m.Part); err != nil {
				return err
			}
			return s.goOn(ctx)
		}
		if d, err = s.finished(ctx, n, item); err != nil {
			return err
		}
	}
	targets := s.targets(*d)
	first := min(m.Part*engine.FanWidth, len(targets))
	var edges []edge
	for _, t := range targets[first:min(first+engine.FanWidth, len(targets))] {
		edges = append(edges, edge{*d, t})
	}
	more, err := s.tellAll(ctx, edges)
	if err != nil {
		return err
	}
	if err := s.walk(ctx, more...); err != nil {
		return err
	}
	return s.goOn(ctx)
}

// tellAll tells each node once, of all that finished together before it: a
// hundred tasks that were skipped take one write to a join, not a hundred. It
// returns the nodes that are finished by that.
func (s *session) tellAll(ctx context.Context, edges []edge) ([]done, error) {
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.to.Node, b.to.Node) })
	known, err := s.decided(ctx, edges)
	if err != nil {
		return nil, err
	}
	var more []done
	for len(edges) > 0 {
		n := 1
		for n < len(edges) && edges[n].to.Node == edges[0].to.Node {
			n++
		}
		next, err := s.tell(ctx, edges[:n], known)
		if err != nil || s.run.Status.RunEnded() {
			return nil, err
		}
		if next != nil {
			more = append(more, *next)
		}
		edges = edges[n:]
	}
	return more, nil
}

// decided reads, for a walk that may have been made before, the items of those
// targets whose item the walk itself does not write.
func (s *session) decided(ctx context.Context, edges []edge) (map[engine.Node]*runstate.Node, error) {
	if !s.again {
		return nil, nil
	}
	var nodes []engine.Node
	for _, e := range edges {
		if ref, err := s.flow.plan.Ref(e.to.Node); err == nil && e.to.Need <= 1 && ref.Kind == engine.KindTask {
			nodes = append(nodes, e.to.Node)
		}
	}
	nodes = slices.Compact(nodes)
	if len(nodes) == 0 {
		return nil, nil
	}
	return runstate.LoadAll(ctx, s.Table, s.org, s.id, nodes)
}

// tell notes on a node that some of its dependencies have finished. If they
// were the last, the node is decided; if it is finished by that, it is
// returned. known are the items that the node may have.
func (s *session) tell(ctx context.Context, edges []edge, known map[engine.Node]*runstate.Node) (*done, error) {
	d, t := edges[0].from, edges[0].to
	ref, err := s.flow.plan.Ref(t.Node)
	if err != nil {
		return nil, err
	}
	sets := engine.One(d.outcome)
	var item *runstate.Node
	switch {
	case t.Need == 0: // a task without dependencies
		sets = engine.Sets{}
		item = known[t.Node]
	case t.Need == 1:
		item = known[t.Node]
	default:
		//guard:log/before-end false
		if !s.Resident { // others may end the run on what this process has only in memory
			if err := s.Logs.Flush(ctx, s.org, s.id); err != nil {
				return nil, err
			}
		}
		if item, err = s.note(ctx, edges); err != nil {
			return nil, err
		}
		if sets = item.Sets(); sets.Count() < t.Need { //guard:tell/all false
			return nil, nil
		}
	}
	switch ref.Kind {
	case engine.KindJoin:
		//guard:join/worst field outcome engine.OutcomeOK
		return &done{node: t.Node, outcome: sets.Worst(), width: d.width}, nil
	case engine.KindEnd:
		return nil, s.end(ctx, sets.Worst()) //guard:end/sinks arg 2 d.outcome
	}
	if from, err := s.refOf(d.node); err == nil && from.Kind == engine.KindJoin && from.Task == ref.Task {
		return s.collect(ctx, t.Node, d)
	}
	if item != nil && item.Status != "" {
		return s.known(ctx, t.Node, item)
	}
	return s.decide(ctx, t.Node, ref, sets)
}

func (s *session) refOf(n engine.Node) (engine.Ref, error) {
	if n == events.Start {
		return engine.Ref{}, errors.New("the start")
	}
	return s.flow.plan.Ref(n)
}

// note adds dependencies' numbers to a node's sets.
func (s *session) note(ctx context.Context, edges []edge) (*runstate.Node, error) {
	sets := map[string][]int{}
	for _, e := range edges {
		set := runstate.SetOf(e.from.outcome) //guard:tell/outcome arg 1 engine.OutcomeOK
		//guard:tell/idempotent arg 2 int(e.from.node) + 100_000*int(s.Clock.Now().UnixNano()%1e9)
		sets[set] = append(sets[set], int(e.from.node))
	}
	var do []table.Action
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		//guard:tell/all-kept arg 2 table.Set(set, table.SetOf(sets[set]...))
		do = append(do, table.AddToSet(set, sets[set]...))
	}
	n := edges[0].to.Node
	stored, err := s.Table.Update(ctx, table.Update{Key: runstate.NodeKey(s.org, s.id, n), Do: do})
	if err != nil {
		return nil, fmt.Errorf("note %d nodes on %d: %w", len(edges), n, err)
	}
	item := &runstate.Node{}
	return item, table.Unmarshal(stored, item)
}
