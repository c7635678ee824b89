package engine

import "fmt"

// Node is the number of a node in a plan. Numbers depend only on the flow and
// the version of the plan, so every process computes the same plan.
//
//	0 … T-1        tasks, in the order of the flow
//	T              END, which all sinks lead to
//	T+1            the on_failure task
//	T+2 … M-1      joins of wide fan-ins
//	M + k*block …  map k: instance i at +i, its joins from +MaxWidth on;
//	               a block has MaxWidth numbers and some spare ones for joins
type Node int

// NodeKind is the kind of a node.
type NodeKind int

// Kinds of nodes.
const (
	KindTask NodeKind = iota
	KindEnd
	KindOnFailure
	KindJoin
	KindInstance
)

// TaskDef is the part of a task that its plan depends on.
type TaskDef struct {
	Deps   []int // indexes of the tasks it depends on
	Rule   Rule
	Mapped bool
}

// Target is a node that is notified when another one has finished. It is ready
// to be decided when Need nodes have notified it.
type Target struct {
	Node Node
	Need int
}

// join is a static join: a node in the tree of a wide fan-in.
type join struct {
	parent Target
	need   int
}

// Plan is the plan of a flow. It is immutable and shared by all runs of the
// flow.
type Plan struct {
	layout
	tasks    []TaskDef
	targets  [][]Target // by task
	joins    []join     // by number - (T+2)
	roots    []Node
	sinks    int
	maps     []int // tasks that are mapped
	mapIndex []int // by task: its index in maps
	mapBase  int   // number of the first map block
}

// newPlan computes the plan of a flow whose graph has no cycle.
func newPlan(l layout, tasks []TaskDef) *Plan {
	p := &Plan{layout: l, tasks: tasks, targets: make([][]Target, len(tasks)), mapIndex: make([]int, len(tasks))}
	dependents := make([]bool, len(tasks))
	for i, t := range tasks {
		if len(t.Deps) == 0 {
			p.roots = append(p.roots, Node(i))
		}
		if t.Mapped {
			p.mapIndex[i] = len(p.maps)
			p.maps = append(p.maps, i)
		}
		for _, d := range t.Deps {
			dependents[d] = true
		}
	}
	for i, t := range tasks {
		p.lead(t.Deps, Node(i))
	}
	var sinks []int
	for i := range tasks {
		if !dependents[i] {
			sinks = append(sinks, i)
		}
	}
	p.sinks = len(sinks)
	p.lead(sinks, p.End()) //guard:plan/END arg 1 sinks[:1]
	p.mapBase = len(tasks) + 2 + len(p.joins)
	return p
}

// lead makes the tasks lead to a node, through a tree of joins if there are
// many.
func (p *Plan) lead(from []int, to Node) {
	leaves := p.tree(len(from), Target{Node: to, Need: len(from)})
	for i, f := range from {
		p.targets[f] = append(p.targets[f], leaves[i])
	}
}

// tree returns, for each of n children of a node, the target it leads to.
func (p *Plan) tree(n int, to Target) []Target {
	leaves := make([]Target, n)
	if n <= p.joinWidth { //guard:plan/join-width off +1
		for i := range leaves {
			leaves[i] = Target{Node: to.Node, Need: n}
		}
		return leaves
	}
	groups := (n + p.joinWidth - 1) / p.joinWidth
	parents := p.tree(groups, to)
	for g := range groups {
		number := Node(len(p.tasks) + 2 + len(p.joins))
		p.joins = append(p.joins, join{parent: parents[g], need: min(p.joinWidth, n-g*p.joinWidth)})
		for i := g * p.joinWidth; i < min((g+1)*p.joinWidth, n); i++ {
			leaves[i] = Target{Node: number, Need: min(p.joinWidth, n-g*p.joinWidth)} //guard:plan/join-need field Need 1
		}
	}
	return leaves
}

// Len returns the number of tasks.
func (p *Plan) Len() int { return len(p.tasks) }

// End returns the END node.
func (p *Plan) End() Node { return Node(len(p.tasks)) }

// OnFailure returns the node of the flow's on_failure task.
func (p *Plan) OnFailure() Node { return Node(len(p.tasks) + 1) }

// Roots returns the tasks without dependencies.
func (p *Plan) Roots() []Node { return p.roots }

// Sinks returns the number of tasks without dependents.
func (p *Plan) Sinks() int { return p.sinks }

// Maps returns the indexes of the mapped tasks.
func (p *Plan) Maps() []int { return p.maps }

// Static returns the number of nodes before the first map block.
func (p *Plan) Static() int { return p.mapBase }

// Def returns a task's definition.
func (p *Plan) Def(task int) TaskDef { return p.tasks[task] }

// Instance returns the node of a mapped task's instance.
func (p *Plan) Instance(task, index int) Node {
	return Node(p.mapBase + p.mapIndex[task]*p.block() + index)
}

// MapNodes returns the first number of a mapped task's block and, given its
// width, the number past its last instance, its first join and the number past
// its last join.
func (p *Plan) MapNodes(task, width int) (first, end, firstJoin, endJoin Node) {
	first = p.Instance(task, 0)
	return first, first + Node(width), first + Node(p.maxWidth), first + Node(p.maxWidth) + Node(p.joinCount(width))
}

// Ref describes a node.
type Ref struct {
	Kind  NodeKind
	Task  int // KindTask, KindInstance, and joins of a map; -1 otherwise
	Index int // of an instance or of a map's join
}

// Ref returns the description of a node. An unknown number is an error.
func (p *Plan) Ref(n Node) (Ref, error) {
	t := len(p.tasks)
	switch i := int(n); {
	case i < 0:
	case i < t:
		return Ref{Kind: KindTask, Task: i}, nil
	case i == t:
		return Ref{Kind: KindEnd, Task: -1}, nil
	case i == t+1:
		return Ref{Kind: KindOnFailure, Task: -1}, nil
	case i < p.mapBase:
		return Ref{Kind: KindJoin, Task: -1, Index: i - t - 2}, nil
	default:
		m, at := (i-p.mapBase)/p.block(), (i-p.mapBase)%p.block()
		if m >= len(p.maps) {
			break
		}
		if at < p.maxWidth {
			return Ref{Kind: KindInstance, Task: p.maps[m], Index: at}, nil
		}
		return Ref{Kind: KindJoin, Task: p.maps[m], Index: at - p.maxWidth}, nil
	}
	return Ref{}, fmt.Errorf("engine: no node %d in this plan", n)
}

// Targets returns the nodes to notify when n has finished. width is the width
// of the map that n is an instance or a join of. A map's last join leads to the
// mapped task itself, which then finishes with the worst outcome of its
// instances.
func (p *Plan) Targets(n Node, width int) []Target {
	ref, err := p.Ref(n)
	if err != nil {
		return nil
	}
	switch ref.Kind {
	case KindTask:
		return p.targets[ref.Task]
	case KindInstance:
		return []Target{p.mapTarget(ref.Task, 0, ref.Index, width)}
	case KindJoin:
		if ref.Task < 0 {
			return []Target{p.joins[ref.Index].parent}
		}
		level, at := p.joinLevel(ref.Index, width)
		if level == p.topLevel(width) {
			return []Target{{Node: Node(ref.Task), Need: 1}}
		}
		return []Target{p.mapTarget(ref.Task, level, at, width)}
	}
	return nil
}

// mapTarget returns the join above child i of a level of a map's join tree.
// Level 0 is the instances.
func (p *Plan) mapTarget(task, level, i, width int) Target {
	children := p.levelSize(level, width)
	group := i / p.joinWidth
	number := p.Instance(task, p.maxWidth) + Node(p.levelStart(level+1, width)+group)
	//guard:plan/map-joins arg 1 p.joinWidth - 1
	return Target{Node: number, Need: min(p.joinWidth, children-group*p.joinWidth)}
}

// JoinNeed returns the number of children of a join. width is the width of the
// map that the join belongs to, if any.
func (p *Plan) JoinNeed(n Node, width int) int {
	ref, err := p.Ref(n)
	if err != nil || ref.Kind != KindJoin {
		return 0
	}
	if ref.Task < 0 {
		return p.joins[ref.Index].need
	}
	level, at := p.joinLevel(ref.Index, width)
	return min(p.joinWidth, p.levelSize(level-1, width)-at*p.joinWidth)
}
