package engine

import "fmt"

// PlanVersion is the version of the plans that runs accepted now are given.
//
// A run's nodes are stored, and named in messages, by their numbers, and its
// plan is computed again from its flow. So a run keeps the version it was
// accepted with: how a version numbers never changes, and another way to number
// is a further version.
const PlanVersion = 1

// layouts are the versions of plans.
var layouts = map[int]layout{
	1: {joinWidth: 64, fanWidth: 100, maxWidth: 10_000, spare: 200},
}

// layout is the sizes that keep every item and every message small, and that
// the numbers of nodes follow from.
type layout struct {
	joinWidth int
	fanWidth  int
	maxWidth  int
	spare     int // numbers for the joins of a map of maxWidth
}

// NewPlan computes the plan, of the current version, of a flow whose graph has
// no cycle.
func NewPlan(tasks []TaskDef) *Plan { return newPlan(layouts[PlanVersion], tasks) }

// PlanOf computes the plan, of a run's version, of a flow whose graph has no
// cycle. Version 0 is 1: that of runs which do not tell theirs. An unknown
// version is an error: the run was accepted by a newer service.
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

// JoinWidth is how many dependencies are noted on one item.
func (l layout) JoinWidth() int { return l.joinWidth }

// FanWidth is how many dependents are handled for one message.
func (l layout) FanWidth() int { return l.fanWidth }

// MaxWidth is how many elements a map may have.
func (l layout) MaxWidth() int { return l.maxWidth }

// block is how many numbers a map owns: instances first, then its joins.
func (l layout) block() int { return l.maxWidth + l.spare }

// levelSize is how many nodes a level of a map's tree has: width at level 0,
// then one for each joinWidth of the level below, down to one.
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

// levelStart is the index of a level's first join, level 1 being the first.
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
