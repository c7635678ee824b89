package engine

import "fmt"

// PlanVersion is the version of the plans of newly accepted runs.
//
// Nodes are stored, and named in messages, by their numbers, and the plan of a
// run is computed again from its flow. A run therefore keeps the version it was
// accepted with, and the numbering of a version never changes: another
// numbering is a new version.
const PlanVersion = 1

// layouts are the layouts by version.
var layouts = map[int]layout{
	1: {joinWidth: 64, fanWidth: 100, maxWidth: 10_000, spare: 200},
}

// layout has the sizes that keep all items and messages small. They determine
// the numbers of nodes.
type layout struct {
	joinWidth int
	fanWidth  int
	maxWidth  int
	spare     int // numbers for the joins of a map of maxWidth
}

// NewPlan computes the plan of a flow in the current version. The graph must
// have no cycle.
func NewPlan(tasks []TaskDef) *Plan { return newPlan(layouts[PlanVersion], tasks) }

// PlanOf computes the plan of a flow in the version of a run. The graph must
// have no cycle. Version 0 is 1, for runs that were accepted without a version.
// An unknown version is an error: the run was accepted by a newer service.
func PlanOf(version int, tasks []TaskDef) (*Plan, error) {
	if version == 0 {
		version = 1
	}
	l, ok := layouts[version]
	if !ok { //guard:plan/version false
		return nil, fmt.Errorf("engine: plans of version %d are unknown, the newest is %d", version, PlanVersion)
	}
	return newPlan(l, tasks), nil
}

// JoinWidth returns the largest number of dependencies recorded on one item.
func (l layout) JoinWidth() int { return l.joinWidth }

// FanWidth returns the number of dependents handled for one message.
func (l layout) FanWidth() int { return l.fanWidth }

// MaxWidth returns the largest number of elements of a map.
func (l layout) MaxWidth() int { return l.maxWidth }

// block returns the number of nodes of a map: its instances, then its joins.
func (l layout) block() int { return l.maxWidth + l.spare }

// levelSize returns the number of nodes in a level of a map's tree: width at
// level 0, then one for each joinWidth nodes of the level below, down to one.
func (l layout) levelSize(level, width int) int {
	n := width
	for range level {
		n = (n + l.joinWidth - 1) / l.joinWidth
	}
	return n
}

func (l layout) topLevel(width int) int {
	level := 1
	for l.levelSize(level, width) > 1 {
		level++
	}
	return level
}

// levelStart returns the index of a level's first join. The first level is 1.
func (l layout) levelStart(level, width int) int {
	start := 0
	for below := 1; below < level; below++ {
		start += l.levelSize(below, width)
	}
	return start
}

func (l layout) joinLevel(index, width int) (level, at int) {
	level = 1
	for index >= l.levelSize(level, width) {
		index -= l.levelSize(level, width)
		level++
	}
	return level, index
}

func (l layout) joinCount(width int) int {
	if width == 0 {
		return 0
	}
	return l.levelStart(l.topLevel(width)+1, width)
}
