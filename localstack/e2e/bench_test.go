package e2e

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/bench"
)

var _ = bench.Run // part of what the binary is made of

// TestBenchMeasures: the bench starts servers of the binary itself, loses no
// run, and says so.
func TestBenchMeasures(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), binary, "bench", "--rows", "submitters$|in sequence$", "--load", "200ms").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, row := range []string{
		`one-task runs, 16 submitters +\d+/s .* none lost`,
		`40 trivial tasks in sequence +[\d.]+ ms +[\d.]+ ms +98 +48 +3 .* (met|NOT MET)`,
	} {
		assert.Regexp(t, row, string(out))
	}
	_, err = exec.CommandContext(t.Context(), binary, "bench", "--rows", "(").CombinedOutput()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 2, failed.ExitCode())
	assert.False(t, regexp.MustCompile("panic").Match(out))
}
