package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/fixture/canary"
)

// TestASecretIsFoundNowhere: a canary that a flow prints, logs, returns, raises and
// sends is in no log, output, error, audit entry, trace or file of the server, in
// none of four encodings; and tasks that read it got it.
func TestASecretIsFoundNowhere(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir, "--allow-loopback", "--log-level", "debug")
	canary.Run(t, s.Client())
	s.Stop()
	canary.NotIn(t, "server's output", []byte(s.Output()))
	dump, stderr, code := cli(t, "dump", "--data", dir)
	require.Zero(t, code, stderr)
	assert.Contains(t, dump, "read_value", "the audit log is in the dump")
	canary.NotIn(t, "dump", []byte(dump))
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		canary.NotIn(t, path, data)
		return err
	}))
	require.Greater(t, files, 10)
}
