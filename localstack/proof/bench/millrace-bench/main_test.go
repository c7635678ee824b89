package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "millrace/localstack/embedded/server" // the binary is built from it
	"millrace/localstack/proc/proctest"
)

// server is the measured binary.
var server string

func TestMain(m *testing.M) {
	os.Exit(proctest.Main(m, map[string]*string{proctest.Local: &server}))
}

// TestBenchMeasures checks that the command starts servers of the binary, loses
// no run, and reports that.
func TestBenchMeasures(t *testing.T) {
	t.Parallel()
	bench := filepath.Join(t.TempDir(), "millrace-bench")
	require.NoError(t, proctest.Build(bench, "millrace/localstack/proof/bench/millrace-bench"))
	out, err := exec.CommandContext(t.Context(), bench, "--binary", server, "--rows", "submitters$|in sequence$", "--load", "200ms").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, row := range []string{
		`one-task runs, 16 submitters +\d+/s .* none lost`,
		`40 trivial tasks in sequence( +[\d.]+ ms){4} +100 +50.5 +3 .* (met|NOT MET)`,
	} {
		assert.Regexp(t, row, string(out))
	}
	for _, wrong := range [][]string{{"--rows", "("}, {"--history", "many"}, {"more"}} {
		out, err = exec.CommandContext(t.Context(), bench, wrong...).CombinedOutput()
		var failed *exec.ExitError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, 2, failed.ExitCode())
		assert.NotContains(t, string(out), "panic")
	}
}
