package worker_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/launch"
)

// TestTierOfTask checks the precedence of tiers: the request's, then the
// task's, then that of the deployment or the flow version; also in a retry.
func TestTierOfTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		got := map[string]string{}
		broken := true
		note := func(_ context.Context, a *executor.Attempt) executor.Result {
			got[a.Task.Name] = a.Mode
			if broken && a.Task.Name == "last" {
				return executor.Failed(executor.TaskFailed, "no")
			}
			return ok("1")
		}
		for _, name := range []string{"own", "plain", "last"} {
			w.task(name, note)
		}
		w.register("f", with(spec("own", "plain: own", "last: plain"), map[string]map[string]any{"own": {"tier": "large"}, "last": {"tier": "micro"}}))
		for mode, want := range map[string]map[string]string{
			"":      {"own": "large", "plain": "nano", "last": "micro"},
			"small": {"own": "small", "plain": "small", "last": "small"},
		} {
			broken = true
			run, err := w.launch.Accept(w.ctx, org, launch.Request{Flow: "f", Version: "1", Mode: mode, Trigger: launch.Manual})
			require.NoError(t, err)
			assert.Equal(t, engine.Failed, w.wait(run.ID).Status)
			assert.Equal(t, want, got, mode)
			broken, got["last"] = false, ""
			again, err := w.launch.RetryFromFailed(w.ctx, org, run.ID, "")
			require.NoError(t, err)
			assert.Equal(t, engine.Succeeded, w.wait(again.Run.ID).Status)
			assert.Equal(t, want["last"], got["last"], "a retry of %q", mode)
		}
	})
}
