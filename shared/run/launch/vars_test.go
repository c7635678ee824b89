package launch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
)

// TestVarsAreReadOnceForEachRun checks that a run and its retry each read them,
// as they are then, and that a request that returns an existing run does not.
func TestVarsAreReadOnceForEachRun(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	reads, region := 0, "eu"
	l.Vars = func(_ context.Context, workspace, environment string) (map[string]string, error) {
		assert.Equal(t, []string{org, "prod"}, []string{workspace, environment})
		reads++
		return map[string]string{"REGION": region}, nil
	}
	vars := func(run runstate.Run) map[string]string {
		input, err := runstate.LoadInput(k.ctx, k.store, k.objects, org, run.ID)
		require.NoError(t, err)
		return input.Vars
	}
	req := keyed("request")
	req.Environment = "prod"
	run, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	region = "us"
	_, err = l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, 1, reads)
	assert.Equal(t, map[string]string{"REGION": "eu"}, vars(run))

	_, err = k.store.Update(k.ctx, table.Update{Key: run.Key, Do: []table.Action{table.Set(runstate.RunStatus, string(engine.Failed))}})
	require.NoError(t, err)
	retried, err := l.Retry(k.ctx, org, run.ID, false)
	require.NoError(t, err)
	assert.Equal(t, 2, reads)
	assert.Equal(t, map[string]string{"REGION": "us"}, vars(retried.Run))
}

// TestRunWithUnreadableVarsIsNotAccepted checks that the error of Vars is
// returned and nothing is written.
func TestRunWithUnreadableVarsIsNotAccepted(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	l.Vars = func(context.Context, string, string) (map[string]string, error) {
		return nil, errs.New(errs.Unprocessable, "There is no environment prod")
	}
	for _, req := range []launch.Request{keyed("request"), of(nightly(0))} {
		_, err := l.Accept(k.ctx, org, req)
		assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
	}
	assert.Empty(t, k.runs())
}
