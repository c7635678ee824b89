package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// TestGuardsStand holds the lists to the source: each guard is where its list
// says, breaking it leaves Go, and the tests that should notice exist.
func TestGuardsStand(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, g := range append(all(), redundant()...) {
		t.Run(g.Name, func(t *testing.T) {
			assert.False(t, names[g.Name], "the name occurs twice")
			names[g.Name] = true
			assert.NotEmpty(t, g.Holds)
			file, broken, err := g.apply(root)
			require.NoError(t, err)
			assert.NotEqual(t, g.Text, g.Broken)
			_, err = parser.ParseFile(token.NewFileSet(), file, broken, parser.SkipObjectResolution)
			assert.NoError(t, err)
			there := tests(t, g.Tests.Package)
			for name := range strings.SplitSeq(g.Tests.Run, "|") {
				assert.True(t, there[name], "no test %s in %s", name, g.Tests.Package)
			}
		})
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// tests are the names of a package's tests.
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

// TestAMutantIsJudged breaks one guard, one line that guards nothing, and one so
// that it is no longer Go.
func TestAMutantIsJudged(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	b, err := newBench(dir, []string{"shared/engine"})
	require.NoError(t, err)
	defer b.close()
	g := Guard{
		Name: "all_done", Holds: "all_done runs, however its dependencies ended", In: "shared/engine",
		Text: "case AllDone:", Broken: `case AllDone + "x":`, Tests: engine("TestDecide"),
	}
	require.NoError(t, b.whole(t.Context(), []Guard{g}))
	v, err := b.judge(t.Context(), g)
	require.NoError(t, err)
	assert.True(t, v.caught)
	assert.True(t, v.expected)
	assert.Contains(t, v.by, "engine.TestDecide")

	g.Broken = g.Text + " // whatever"
	v, err = b.judge(t.Context(), g)
	require.NoError(t, err)
	assert.False(t, v.caught)

	g.Broken = "case Nothing:"
	_, err = b.judge(t.Context(), g)
	assert.ErrorContains(t, err, "undefined: Nothing", "what does not compile proves nothing")
}
