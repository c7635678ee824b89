package bench_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/bench"
	"millrace/shared/platform/blob/blobtest"
)

var update = flag.Bool("update", false, "write the generated files anew")

// The README's bill, written by make generate, stands between these lines.
const (
	begin = "<!-- cost:begin -->\n"
	end   = "<!-- cost:end -->\n"
)

var taken struct {
	once   sync.Once
	counts []bench.Count
}

// counts takes the counts, once. The bubble's time stands still meanwhile, so
// that they are the same however busy the machine is.
func counts(t *testing.T) []bench.Count {
	t.Helper()
	taken.once.Do(func() {
		synctest.Test(t, func(t *testing.T) {
			var err error
			taken.counts, err = bench.Counts(t.Context(), &blobtest.Memory{}, widest)
			require.NoError(t, err)
		})
		if widest < bench.Widest {
			taken.counts = completed(t, taken.counts)
		}
	})
	require.NotEmpty(t, taken.counts)
	return taken.counts
}

// completed are the golden counts with those that were taken in their places.
func completed(t *testing.T, taken []bench.Count) []bench.Count {
	t.Helper()
	out, err := bench.Golden()
	require.NoError(t, err)
	for i := range out {
		for _, c := range taken {
			if c.Work == out[i].Work {
				out[i] = c
			}
		}
	}
	return out
}

// TestCountsAreThoseOfTheGoldenFile: what work costs changes on purpose only.
func TestCountsAreThoseOfTheGoldenFile(t *testing.T) {
	path := filepath.Join("testdata", "budget.golden")
	got := bench.Format(counts(t))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run make generate if the change is meant")
}

// TestCountsAreWithinTheirBudgets holds the counts to what was promised.
func TestCountsAreWithinTheirBudgets(t *testing.T) {
	budgets, err := bench.CountBudgets(counts(t))
	require.NoError(t, err)
	require.NotEmpty(t, budgets)
	for _, b := range budgets {
		assert.LessOrEqual(t, b.Got, b.Most, b.What)
		t.Logf("%-50s %8.3f of %g", b.What, b.Got, b.Most)
	}
}

func TestReadmeShowsTheBill(t *testing.T) {
	path := filepath.Join("..", "..", "..", "README.md")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, found && ended, "the README has lost its marks")
	table, err := bench.Markdown(counts(t))
	require.NoError(t, err)
	want := before + begin + table + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(old), "the README's bill is out of date: run make generate")
}
