package executor_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/executor"
	"millrace/shared/run/sandbox"
)

func TestFilesAreSavedAndOpenedInWorkspace(t *testing.T) {
	t.Parallel()
	run := func(ctx context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		first, link, err := req.Files.Save(ctx)
		require.NoError(t, err)
		assert.Equal(t, "runs/01RUN/out/0-1-files/0", first)
		assert.Contains(t, link, "org_test/runs/01RUN/out/0-1-files/0")
		second, _, err := req.Files.Save(ctx)
		require.NoError(t, err)
		assert.Equal(t, "runs/01RUN/out/0-1-files/1", second)

		link, err = req.Files.Open(ctx, second)
		require.NoError(t, err)
		assert.Contains(t, link, "org_test/runs/01RUN/out/0-1-files/1")
		_, err = req.Files.Open(ctx, "runs/01EARLIER/out/3-2-files/7")
		require.NoError(t, err, "an output that is reused names a file of an earlier run")
		for _, forged := range []string{
			"", "runs/01RUN/out/0-1.json", "../org_other/runs/01RUN/out/0-1-files/0", "org_other/runs/01RUN/out/0-1-files/0", "runs/../x/out/0-1-files/0",
			"runs/01RUN/out/0-1-files/0/..", "runs/01RUN/out/0-1-files/0?x", "runs/01RUN/out/0-1-files/0\n", "secrets.json",
		} {
			_, err := req.Files.Open(ctx, forged)
			assert.ErrorContains(t, err, "no reference to a file", forged)
		}
		for range sandbox.MaxSavedFiles - 2 {
			_, _, err = req.Files.Save(ctx)
			require.NoError(t, err)
		}
		_, _, err = req.Files.Save(ctx)
		assert.ErrorContains(t, err, "at most 1000 files")
		return sandbox.Result{Output: json.RawMessage("1"), OutputBytes: 1}, nil
	}
	r, _, _ := python(t, pyTask, func(a *executor.Attempt) { a.OutputKey = "org_test/runs/01RUN/out/0-1.json" }, run)
	require.Nil(t, r.Failure)
}

// TestLinksOfFilesAreHidden checks that links of files are masked, as those of
// outputs are: they are credentials.
func TestLinksOfFilesAreHidden(t *testing.T) {
	t.Parallel()
	var link string
	r, _, _ := python(t, pyTask, func(a *executor.Attempt) { a.OutputKey = "org_test/runs/01RUN/out/0-1.json" },
		func(ctx context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
			var err error
			_, link, err = req.Files.Save(ctx)
			require.NoError(t, err)
			return sandbox.Result{}, &leak{link}
		})
	require.NotNil(t, r.Failure)
	assert.NotEmpty(t, link)
	assert.Equal(t, "the store refused (link)", strings.TrimSpace(r.Failure.Message))
}

type leak struct{ link string }

func (l *leak) Error() string { return "the store refused " + l.link }
