package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// TestGuardsStand compares the lists with the source: each guard is marked
// once, each mark belongs to a guard, its operator fits the marked line and
// results in different valid Go, and the tests that should fail exist.
func TestGuardsStand(t *testing.T) {
	t.Parallel()
	marks, err := marked(root)
	require.NoError(t, err)
	all, err := guarded(root, guardList+redundantList)
	require.NoError(t, err)
	for _, g := range all {
		require.Contains(t, marks, g.Name, "the name occurs twice")
		delete(marks, g.Name)
		broken, err := g.Mark.apply(root)
		assert.NoError(t, err, g.Name)
		whole, err := os.ReadFile(filepath.Join(root, g.Mark.File))
		require.NoError(t, err)
		assert.NotEqual(t, string(whole), string(broken), g.Name)
		there := tests(t, g.Tests.Package)
		for name := range strings.SplitSeq(g.Tests.Run, "|") {
			assert.True(t, there[name], "no test %s in %s for %s", name, g.Tests.Package, g.Name)
		}
	}
	assert.Empty(t, marks, "marks of no guard")
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// tests returns the names of a package's tests.
func tests(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	there := map[string]bool{}
	for _, f := range files {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			there[string(m[1])] = true
		}
	}
	return there
}

// TestMutantIsJudged breaks one guard, then without an effect, and then so that
// it is invalid Go.
func TestMutantIsJudged(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	b, err := newBench(dir, []string{"shared/run/engine"})
	require.NoError(t, err)
	defer b.close()
	all, err := guarded(root, "rule/one_failed shared/run/engine TestDecide one_failed runs only if one failed")
	require.NoError(t, err)
	g := all[0]
	require.NoError(t, b.whole(t.Context(), all))
	v, err := b.judge(t.Context(), g)
	require.NoError(t, err)
	assert.True(t, v.caught)
	assert.True(t, v.expected)
	assert.Contains(t, v.by, "engine.TestDecide")

	g.Mark.Op = "and true"
	v, err = b.judge(t.Context(), g)
	require.NoError(t, err)
	assert.False(t, v.caught)

	g.Mark.Op = "and nothing"
	_, err = b.judge(t.Context(), g)
	assert.ErrorContains(t, err, "undefined: nothing", "what does not compile proves nothing")

	g.Mark.Op = "drop field If"
	_, err = b.judge(t.Context(), g)
	assert.ErrorContains(t, err, "nothing on the line fits")
}
