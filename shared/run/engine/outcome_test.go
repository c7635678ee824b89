package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for st, want := range map[Status]Outcome{
		Succeeded: OutcomeOK, Reused: OutcomeOK, Skipped: OutcomeSkipped, TimedOut: OutcomeTimedOut,
		Failed: OutcomeFailed, UpstreamFailed: OutcomeFailed, Cancelled: OutcomeFailed,
	} {
		assert.True(t, st.Terminal(), st)
		assert.Equal(t, want, st.Outcome(), st)
	}
	for _, st := range []Status{"", Pending, Queued, Running, Retrying, AwaitingApproval} {
		assert.False(t, st.Terminal(), st)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	for sets, want := range map[Sets]Outcome{
		{}:                               OutcomeOK,
		{OK: 3}:                          OutcomeOK,
		{OK: 1, Skipped: 1}:              OutcomeSkipped,
		{OK: 1, Skipped: 1, TimedOut: 1}: OutcomeTimedOut,
		{OK: 1, Skipped: 1, TimedOut: 1, Failed: 1}: OutcomeFailed,
	} {
		assert.Equal(t, want, sets.Worst(), "%+v", sets)
	}
}

func TestRunStatus(t *testing.T) {
	t.Parallel()
	for worst, want := range map[Outcome]Status{
		OutcomeOK: Succeeded, OutcomeSkipped: Succeeded, OutcomeTimedOut: TimedOut, OutcomeFailed: Failed,
	} {
		assert.Equal(t, want, RunStatus(worst))
		assert.Equal(t, want, MapStatus(worst))
	}
}

// TestEndDependsOnAllSinks checks that each task without dependents leads to
// END, and that END needs all of them.
func TestEndDependsOnAllSinks(t *testing.T) {
	t.Parallel()
	p := NewPlan([]TaskDef{{}, {Deps: []int{0}}, {Deps: []int{0}}, {}})
	for _, sink := range []Node{1, 2, 3} {
		assert.Equal(t, []Target{{Node: p.End(), Need: 3}}, p.Targets(sink, 0))
	}
	assert.NotContains(t, p.Targets(0, 0), Target{Node: p.End(), Need: 3})
}

// TestWideFanInUsesJoins checks that up to 64 dependencies are recorded on the
// task itself, and more on joins of at most 64 each.
func TestWideFanInUsesJoins(t *testing.T) {
	t.Parallel()
	for _, width := range []int{layouts[PlanVersion].joinWidth, layouts[PlanVersion].joinWidth + 1, layouts[PlanVersion].joinWidth*layouts[PlanVersion].joinWidth + 1} {
		defs := make([]TaskDef, width+1)
		for i := range width {
			defs[width].Deps = append(defs[width].Deps, i)
		}
		p := NewPlan(defs)
		children, needs := map[Node]int{}, map[Node]int{}
		seen := map[Node]bool{}
		var up func(n Node)
		up = func(n Node) {
			if seen[n] {
				return
			}
			seen[n] = true
			for _, to := range p.Targets(n, 0) {
				children[to.Node]++
				needs[to.Node] = to.Need
				if ref, err := p.Ref(to.Node); assert.NoError(t, err) && ref.Kind == KindJoin {
					up(to.Node)
				}
			}
		}
		for i := range width {
			up(Node(i))
		}
		assert.Equal(t, children, needs)
		for n, c := range children {
			assert.LessOrEqual(t, c, layouts[PlanVersion].joinWidth, "node %d", n)
		}
		assert.Equal(t, width > layouts[PlanVersion].joinWidth, p.Static() > len(defs)+2)
	}
}
