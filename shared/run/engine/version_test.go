package engine

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var add = flag.Bool("add", false, "write the numbering of a version that has no file yet")

// TestVersionsNeverChange compares each version's numbering with a file that
// was written when the version was new: unfinished runs depend on it.
func TestVersionsNeverChange(t *testing.T) {
	t.Parallel()
	require.Contains(t, layouts, PlanVersion)
	for version, l := range layouts {
		assert.LessOrEqual(t, version, PlanVersion, "the newest is the current one")
		assert.GreaterOrEqual(t, l.spare, l.joinCount(l.maxWidth), "version %d: the joins of the widest map have numbers", version)
		path := filepath.Join("testdata", fmt.Sprintf("plan-%d.txt", version))
		want, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && *add {
			want = []byte(numbering(t, version))
			require.NoError(t, os.WriteFile(path, want, 0o600))
		} else {
			require.NoError(t, err, "a new version's numbering is written by -add")
		}
		assert.Equal(t, string(want), numbering(t, version))
	}
	files, err := filepath.Glob("testdata/plan-*.txt")
	require.NoError(t, err)
	assert.Len(t, files, len(layouts), "a version that runs may have is never removed")
}

// numbering describes all numbers of a few flows.
func numbering(t *testing.T, version int) string {
	var b strings.Builder
	p, err := PlanOf(version, nil)
	require.NoError(t, err)
	fmt.Fprintf(&b, "joins of %d, fans of %d, maps of %d\n", p.JoinWidth(), p.FanWidth(), p.MaxWidth())
	for _, c := range []struct {
		name  string
		tasks []TaskDef
		width []int
	}{
		{"a chain of 3", []TaskDef{{}, {Deps: []int{0}}, {Deps: []int{1}}}, nil},
		{"64 to 1", joined(64), nil},
		{"65 sinks", make([]TaskDef, 65), nil},
		{"130 to 1", joined(130), nil},
		{"5,000 to 1", joined(5000), nil},
		{"two maps between tasks", []TaskDef{{}, {Deps: []int{0}, Mapped: true}, {Deps: []int{1}, Mapped: true}, {Deps: []int{1, 2}}}, []int{0, 1, 64, 65, 6000, 10_000}},
		{"130 to a map", append(joined(130), TaskDef{Deps: []int{130}, Mapped: true}), []int{65}},
	} {
		p, err := PlanOf(version, c.tasks)
		require.NoError(t, err)
		fmt.Fprintf(&b, "\n%s: END %d, on_failure %d, static %d, %d sinks\n", c.name, p.End(), p.OnFailure(), p.Static(), p.Sinks())
		fmt.Fprintf(&b, "roots %s\n", ranges(p.Roots()))
		edges(&b, p, 0, p.End(), 0)
		edges(&b, p, p.OnFailure()+1, Node(p.Static()), 0)
		for _, m := range p.Maps() {
			for _, width := range c.width {
				first, end, firstJoin, endJoin := p.MapNodes(m, width)
				fmt.Fprintf(&b, "map %d of %d: instances from %d to %d, joins from %d to %d\n", m, width, first, end, firstJoin, endJoin)
				edges(&b, p, first, end, width)
				edges(&b, p, firstJoin, endJoin, width)
			}
		}
	}
	return b.String()
}

// joined returns n tasks and one that depends on all of them.
func joined(n int) []TaskDef {
	tasks := make([]TaskDef, n+1)
	for i := range n {
		tasks[n].Deps = append(tasks[n].Deps, i)
	}
	return tasks
}

// edges describes the targets of nodes, consecutive nodes with the same targets
// together.
func edges(b *strings.Builder, p *Plan, from, to Node, width int) {
	for n := from; n < to; {
		targets, end := p.Targets(n, width), n+1
		for end < to && slices.Equal(p.Targets(end, width), targets) && p.JoinNeed(end, width) == p.JoinNeed(n, width) {
			end++
		}
		fmt.Fprintf(b, "  %s", ranges([]Node{n, end - 1}))
		if need := p.JoinNeed(n, width); need > 0 {
			fmt.Fprintf(b, " (joins %d)", need)
		}
		for _, t := range targets {
			fmt.Fprintf(b, " -> %d of %d", t.Node, t.Need)
		}
		b.WriteByte('\n')
		n = end
	}
}

// ranges describes the first and last of consecutive nodes.
func ranges(nodes []Node) string {
	if first, last := nodes[0], nodes[len(nodes)-1]; first != last {
		return fmt.Sprintf("%d..%d", first, last)
	}
	return fmt.Sprint(nodes[0])
}

// TestPlanOf checks that a run's plan has the run's own version, whatever the
// current one is.
func TestPlanOf(t *testing.T) {
	t.Parallel()
	tasks := joined(130)
	untold, err := PlanOf(0, tasks)
	require.NoError(t, err)
	first, err := PlanOf(1, tasks)
	require.NoError(t, err)
	assert.Equal(t, first, untold, "runs that do not tell their version have the first")
	current, err := PlanOf(PlanVersion, tasks)
	require.NoError(t, err)
	assert.Equal(t, NewPlan(tasks), current)
	for _, version := range []int{-1, PlanVersion + 1} {
		_, err = PlanOf(version, tasks)
		assert.ErrorContains(t, err, fmt.Sprintf("version %d are unknown", version))
	}
	other := PlanWith(4, 7, 50, 20, tasks)
	assert.Equal(t, []int{4, 7, 50}, []int{other.JoinWidth(), other.FanWidth(), other.MaxWidth()})
	assert.NotEqual(t, current.Static(), other.Static())
}
