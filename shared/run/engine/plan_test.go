package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// walker executes a plan as specified: it keeps the sets that items would have
// and finishes nodes in an order drawn by the test.
type walker struct {
	t      require.TestingT
	p      *Plan
	sets   map[Node]map[Node]Outcome
	done   map[int]Outcome // tasks
	ready  []Node
	widths map[int]int
	ended  int
	worst  Outcome
}

func (w *walker) finish(n Node, o Outcome) {
	ref, err := w.p.Ref(n)
	require.NoError(w.t, err)
	width := 0
	if ref.Kind == KindTask {
		_, twice := w.done[ref.Task]
		require.False(w.t, twice, "task %d finished twice", ref.Task)
		w.done[ref.Task] = o
	} else if ref.Task >= 0 {
		width = w.widths[ref.Task]
	}
	for _, target := range w.p.Targets(n, width) {
		w.tell(target, n, o)
	}
}

func (w *walker) tell(target Target, from Node, o Outcome) {
	ref, err := w.p.Ref(target.Node)
	require.NoError(w.t, err)
	if ref.Kind == KindTask && w.p.Def(ref.Task).Mapped && from >= Node(w.p.Static()) {
		w.finish(target.Node, o) // the last join of a map
		return
	}
	if w.sets[target.Node] == nil {
		w.sets[target.Node] = map[Node]Outcome{}
	}
	w.sets[target.Node][from] = o
	require.LessOrEqual(w.t, len(w.sets[target.Node]), w.p.JoinWidth())
	if len(w.sets[target.Node]) < target.Need {
		return
	}
	var sets Sets
	for _, o := range w.sets[target.Node] {
		sets.Add(o)
	}
	switch ref.Kind {
	case KindJoin:
		w.finish(target.Node, sets.Worst())
	case KindEnd:
		w.ended++
		w.worst = sets.Worst()
	case KindTask:
		for _, d := range w.p.Def(ref.Task).Deps {
			require.Contains(w.t, w.done, d, "task %d decided before its dependency %d ended", ref.Task, d)
		}
		st, carried := w.p.Def(ref.Task).Rule.Decide(sets)
		if st != Running {
			w.finish(target.Node, carried)
			return
		}
		w.ready = append(w.ready, target.Node)
	}
}

func TestEveryPlanEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "tasks")
		dense := rapid.Bool().Draw(t, "dense")
		defs := make([]TaskDef, n)
		for i := range defs {
			defs[i].Rule = rapid.SampledFrom([]Rule{AllSuccess, AllDone, OneFailed, NoneFailed}).Draw(t, "rule")
			defs[i].Mapped = rapid.IntRange(0, 9).Draw(t, "mapped") == 0
			if i == 0 {
				continue
			}
			k := rapid.IntRange(0, min(i, 3)).Draw(t, "deps")
			if dense && i == n-1 {
				k = i // one task joins all others
			}
			seen := map[int]bool{}
			for j := range k {
				d := j
				if k != i {
					d = rapid.IntRange(0, i-1).Draw(t, "dep")
				}
				if !seen[d] {
					seen[d] = true
					defs[i].Deps = append(defs[i].Deps, d)
				}
			}
		}
		p, widths := NewPlan(defs), []int{0, 1, 2, 64, 65, 4097}
		if rapid.Bool().Draw(t, "small") {
			p, widths = PlanWith(3, 5, 100, 60, defs), []int{0, 1, 3, 4, 10, 100}
		}
		w := &walker{t: t, p: p, sets: map[Node]map[Node]Outcome{}, done: map[int]Outcome{}, widths: map[int]int{}}
		w.ready = append(w.ready, p.Roots()...)
		for len(w.ready) > 0 {
			at := rapid.IntRange(0, len(w.ready)-1).Draw(t, "next")
			node := w.ready[at]
			w.ready = append(w.ready[:at], w.ready[at+1:]...)
			ref, _ := p.Ref(node)
			if ref.Kind == KindTask && p.Def(ref.Task).Mapped {
				width := rapid.SampledFrom(widths).Draw(t, "width")
				w.widths[ref.Task] = width
				if width == 0 {
					w.finish(node, OutcomeOK)
					continue
				}
				first, end, firstJoin, endJoin := p.MapNodes(ref.Task, width)
				require.Equal(t, width, int(end-first))
				require.Greater(t, int(endJoin), int(firstJoin))
				for i := first; i < end; i++ {
					w.finish(i, OutcomeOK)
				}
				require.Contains(t, w.done, ref.Task, "a map of width %d did not end", width)
				continue
			}
			w.finish(node, rapid.SampledFrom([]Outcome{OutcomeOK, OutcomeOK, OutcomeSkipped, OutcomeTimedOut, OutcomeFailed}).Draw(t, "outcome"))
		}
		require.Len(t, w.done, n)
		require.Equal(t, 1, w.ended, "END fires once")
	})
}

func TestDecide(t *testing.T) {
	t.Parallel()
	ok, skipped, timedOut, failed := One(OutcomeOK), One(OutcomeSkipped), One(OutcomeTimedOut), One(OutcomeFailed)
	mixed := Sets{OK: 1, Skipped: 1, Failed: 1, TimedOut: 1}
	for _, c := range []struct {
		rule    Rule
		sets    Sets
		want    Status
		carries Outcome
	}{
		{AllSuccess, ok, Running, OutcomeOK},
		{AllSuccess, skipped, Skipped, OutcomeSkipped},
		{AllSuccess, failed, UpstreamFailed, OutcomeFailed},
		{AllSuccess, timedOut, UpstreamFailed, OutcomeTimedOut},
		{AllSuccess, mixed, UpstreamFailed, OutcomeFailed},
		{AllDone, mixed, Running, OutcomeOK},
		{OneFailed, mixed, Running, OutcomeOK},
		{OneFailed, timedOut, Running, OutcomeOK},
		{OneFailed, skipped, Skipped, OutcomeSkipped},
		{OneFailed, ok, Skipped, OutcomeSkipped},
		{NoneFailed, skipped, Running, OutcomeOK},
		{NoneFailed, mixed, UpstreamFailed, OutcomeFailed},
		{NoneFailed, timedOut, UpstreamFailed, OutcomeTimedOut},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.rule, c.sets), func(t *testing.T) {
			t.Parallel()
			st, o := c.rule.Decide(c.sets)
			assert.Equal(t, c.want, st)
			assert.Equal(t, c.carries, o)
		})
	}
}

func TestTransitionsEnd(t *testing.T) {
	t.Parallel()
	for from, tos := range RunTransitions {
		assert.False(t, from.RunEnded(), "a terminal run never changes: %s", from)
		for _, to := range tos {
			_, goesOn := RunTransitions[to]
			assert.NotEqual(t, goesOn, to.RunEnded(), "%s is either terminal or goes on", to)
		}
	}
	for from := range TaskTransitions {
		assert.False(t, from.Terminal(), "a finished task never changes: %s", from)
	}
	assert.Equal(t, []Status{CancellationRequested, Queued}, Before(Cancelled))
}

func TestReuse(t *testing.T) {
	t.Parallel()
	// 0 → 1 → 3, 0 → 2(mapped) → 4, 5 alone
	p := NewPlan([]TaskDef{{}, {Deps: []int{0}}, {Deps: []int{0}, Mapped: true}, {Deps: []int{1}}, {Deps: []int{2}}, {}})
	order := []int{0, 1, 2, 3, 4, 5}
	for _, c := range []struct {
		name      string
		st        []Status
		instances []Status
		want      ReusePlan
	}{
		{"nothing succeeded is a full retry", []Status{Failed, UpstreamFailed, UpstreamFailed, UpstreamFailed, UpstreamFailed, Skipped}, nil, ReusePlan{}},
		{"a success below a failure runs again", []Status{Succeeded, Failed, Succeeded, Succeeded, Succeeded, Reused}, nil,
			ReusePlan{Tasks: []int{0, 2, 4, 5}, Instances: map[int][]int{}, Reused: []int{0, 2, 4, 5}}},
		{"a skip carries over, and what follows it", []Status{Succeeded, Skipped, Failed, Succeeded, UpstreamFailed, Failed}, []Status{Succeeded, Failed, Succeeded},
			ReusePlan{Tasks: []int{0, 1, 3}, Instances: map[int][]int{2: {0, 2}}, Reused: []int{0, 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := p.Reuse(order, Source{
				Task:     func(i int) Status { return c.st[i] },
				Instance: func(_, i int) Status { return c.instances[i] },
				Width:    func(int) (int, bool) { return len(c.instances), c.instances != nil },
			})
			assert.Equal(t, c.want, got)
		})
	}
}

func TestRefRejectsUnknownNumbers(t *testing.T) {
	t.Parallel()
	p := NewPlan([]TaskDef{{}, {Deps: []int{0}, Mapped: true}})
	for _, n := range []Node{-1, Node(p.Static() + p.block())} {
		_, err := p.Ref(n)
		assert.Error(t, err)
		assert.Empty(t, p.Targets(n, 1))
	}
}
