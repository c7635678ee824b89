package worker_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/faults"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/engine"
	"millrace/shared/run/worker"
)

// lostRunners returns the value of the metric for tier nano.
func lostRunners(t *testing.T, m *telemetry.Metrics, out *bytes.Buffer) float64 {
	t.Helper()
	require.NoError(t, m.Flush(time.Now(), telemetry.Subject{}))
	return telemetrytest.Sum(telemetrytest.Metrics(t, telemetrytest.Lines(t, out.String())), "SandboxLost", "Tier", "nano")
}

// TestRunnersThatDieAreCounted: they report nothing themselves. A task's own
// failure is not counted, nor is a worker that dies.
func TestRunnersThatDieAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for die, want := range map[float64]float64{0: 0, 1: worker.MaxLost} {
			var out bytes.Buffer
			w, r := remote(t, 1, remoteOdds{Die: die})
			w.c.Metrics = telemetry.NewMetrics("Millrace", &out)
			r.fails["a"] = 1
			r.serves("one", faults.Rates{}, 1)
			w.ticking()
			w.register("f", spec("a"))
			assert.Equal(t, engine.Failed, w.ends(w.run("f").ID, 2*time.Hour).Status)
			assert.InDelta(t, want, lostRunners(t, w.c.Metrics, &out), 0)
		}
	})
}

// TestRunnerThatCannotStartIsCountedAndLogged, and costs its task nothing.
func TestRunnerThatCannotStartIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var logged telemetrytest.Log
		w, r := remote(t, 1, remoteOdds{})
		w.c.Metrics = telemetry.NewMetrics("Millrace", &out)
		token := begun(t, w, r)
		c, own := w.hand("two", func(cfg *worker.Config) { w.frozen(cfg); cfg.Log = logged.Logger() }), worker.Runner{Attempt: token, ID: "own"}
		_, err := c.Begin(w.ctx, own)
		require.NoError(t, err)
		const reason = "the runner does not start: ImportError: no module named x"
		answer, err := json.Marshal(answered{Attempt: token.Run + "-0-1", Unstarted: reason})
		require.NoError(t, err)
		require.NoError(t, c.Complete(w.ctx, own, answer))
		assert.InDelta(t, 1, lostRunners(t, w.c.Metrics, &out), 0)
		lines := logged.Said(t, "runner ended without a result")
		require.Len(t, lines, 1)
		assert.Equal(t, []any{"WARN", "nano", reason, token.Run}, []any{lines[0]["level"], lines[0]["tier"], lines[0]["reason"], lines[0]["run_id"]})
		item := w.nodes(token.Run)["a"]
		assert.Equal(t, []any{engine.Queued, 1, 1}, []any{item.Status, item.Attempt, item.Deferred})
		assert.Equal(t, engine.Succeeded, w.ends(token.Run, time.Minute).Status, "it begins again")
	})
}
